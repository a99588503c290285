"""A FastAPI application with limits. See README.md."""

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from sluice_client.asgi import SluiceMiddleware

app = FastAPI()


def is_chat(request):
    return request.path.startswith("/api/chat")


app.add_middleware(
    SluiceMiddleware,
    # X-User stands for your sign-in; never trust such a header of a client.
    user=lambda request: request.headers.get("x-user"),
    # A chat may cost 100 tokens: they are held until the response ends.
    cost=lambda request: 100 if is_chat(request) else None,
    hold=lambda request: "30s" if is_chat(request) else None,
)


@app.get("/api/hello")
def hello(request: Request):
    return {"hello": request.headers.get("x-user")}


@app.post("/api/chat")
def chat(request: Request, tokens: int = 0):
    if tokens == 0:
        raise RuntimeError("the model has failed")  # nothing is charged

    def words():
        yield "a long answer, "
        request.state.sluice_cost = tokens  # what it was
        yield f"{tokens} tokens"

    return StreamingResponse(words(), media_type="text/plain", headers={
        "Access-Control-Expose-Headers": "ETag", "X-Request-Id": "mine"})
