"""A Django application with limits, as WSGI and as ASGI. See README.md."""

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse, StreamingHttpResponse
from django.urls import path
from sluice_client import asgi, wsgi

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"],
                   SECRET_KEY="only-for-this-example")


def hello(request):
    return JsonResponse({"hello": request.headers.get("X-User")})


def chat(request):
    tokens = int(request.GET.get("tokens", 0))
    if tokens == 0:
        raise RuntimeError("the model has failed")  # nothing is charged

    def words():
        yield "a long answer, "
        set_cost(request, tokens)  # what it was
        yield f"{tokens} tokens"

    return StreamingHttpResponse(words(), content_type="text/plain", headers={
        "Access-Control-Expose-Headers": "ETag", "X-Request-Id": "mine"})


def set_cost(request, tokens):
    if hasattr(request, "scope"):
        request.scope["state"]["sluice_cost"] = tokens
    else:
        request.environ["sluice.cost"] = tokens


urlpatterns = [path("api/hello", hello), path("api/chat", chat)]


def is_chat(asked):
    return asked.path.startswith("/api/chat")


limits = {
    # X-User stands for your sign-in; never trust such a header of a client.
    "user": lambda asked: asked.headers.get("x-user"),
    # A chat may cost 100 tokens: they are held until the response ends.
    "cost": lambda asked: 100 if is_chat(asked) else None,
    "hold": lambda asked: "30s" if is_chat(asked) else None,
}

application = wsgi.SluiceMiddleware(get_wsgi_application(), **limits)
asgi_application = asgi.SluiceMiddleware(get_asgi_application(), **limits)

if __name__ == "__main__":
    import os
    from wsgiref.simple_server import make_server

    make_server("127.0.0.1", int(os.environ.get("PORT", 8000)),
                application).serve_forever()
