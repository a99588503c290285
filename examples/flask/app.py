"""A Flask application with limits. See README.md."""

from flask import Flask, Response, jsonify, request, stream_with_context
from sluice_client.wsgi import SluiceMiddleware

app = Flask(__name__)


def is_chat(asked):
    return asked.path.startswith("/api/chat")


app.wsgi_app = SluiceMiddleware(
    app.wsgi_app,
    # X-User stands for your sign-in; never trust such a header of a client.
    user=lambda asked: asked.headers.get("x-user"),
    # A chat may cost 100 tokens: they are held until the response ends.
    cost=lambda asked: 100 if is_chat(asked) else None,
    hold=lambda asked: "30s" if is_chat(asked) else None,
)


@app.get("/api/hello")
def hello():
    return jsonify(hello=request.headers.get("X-User"))


@app.post("/api/chat")
def chat():
    tokens = int(request.args.get("tokens", 0))
    if tokens == 0:
        raise RuntimeError("the model has failed")  # nothing is charged

    def words():
        yield "a long answer, "
        request.environ["sluice.cost"] = tokens  # what it was
        yield f"{tokens} tokens"

    return Response(stream_with_context(words()), mimetype="text/plain",
                    headers={"Access-Control-Expose-Headers": "ETag",
                             "X-Request-Id": "mine"})


if __name__ == "__main__":
    app.run(port=8000)
