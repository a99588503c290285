"""app -- one answer twice, in a framework of Python: /bare without a limit,
/sluice with ours.

usage: app.py fastapi|django|flask PORT
"""

import sys

ANSWER = {"found": []}


def is_bare(request):
    """The path has its query."""
    return request.path.startswith("/bare?")


def user_of(request):
    """The user of ?u=NAME."""
    if hasattr(request, "scope"):
        return request.scope["query_string"][2:].decode()
    return request.environ["QUERY_STRING"][2:]


def asgi(app):
    from sluice_client.asgi import SluiceMiddleware

    return SluiceMiddleware(app, user=user_of, skip=is_bare)


def fastapi():
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/{name}")
    async def answer(name: str):
        return ANSWER

    return asgi(app)


def django():
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.http import JsonResponse
    from django.urls import path

    async def answer(_request, name):
        return JsonResponse(ANSWER)

    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
    globals()["urlpatterns"] = [path("<name>", answer)]
    return asgi(get_asgi_application())


def run_asgi(app, port):
    import uvicorn

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def run_flask(port):
    from flask import Flask
    from sluice_client.wsgi import SluiceMiddleware
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code="-", size="-"):
            pass

    app = Flask(__name__)

    @app.get("/<name>")
    def answer(name):
        return ANSWER

    limited = SluiceMiddleware(app.wsgi_app, user=user_of, skip=is_bare)
    make_server("127.0.0.1", port, limited, threaded=True,
                request_handler=Quiet).serve_forever()


def main():
    name, port = sys.argv[1], int(sys.argv[2])
    if name == "flask":
        run_flask(port)
    else:
        run_asgi({"fastapi": fastapi, "django": django}[name](), port)


if __name__ == "__main__":
    main()
