/* answer.c -- what handlers say. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doors/http/inner.h"
#include "wire/json.h"

#define SENTENCE 512

static const struct sl_str problem = {"application/problem+json", 24};

void sl_http_begin(struct sl_http_call *call)
{
    call->status = 200;
    call->content_type = call->body = (struct sl_str){"", 0};
    call->field_count = 0;
    call->close = false;
    call->stream = NULL;
}

void sl_http_answer(struct sl_http_call *call, int status,
                    struct sl_str content_type, struct sl_str body)
{
    call->status = status;
    call->content_type = content_type;
    call->body = body;
}

void sl_http_field(struct sl_http_call *call, struct sl_str name,
                   struct sl_str value)
{
    if (call->field_count < SL_LEN(call->fields))
        call->fields[call->field_count++] =
            (struct sl_http1_field){name, value};
}

void sl_http_no_memory(struct sl_http_call *call)
{
    sl_http_answer(call, 503, problem,
                   SL_STR("{\"type\":\"about:blank\",\"title\":\"Service "
                          "Unavailable\",\"status\":503,\"detail\":\"out of "
                          "memory\",\"code\":\"NO_MEMORY\"}"));
}

/* "Not Found" of "404 Not Found". */
static struct sl_str title_of(int status)
{
    return sl_str_from(sl_str_c(sl_http1_reason(status)), 4);
}

static int write_problem(struct sl_buf *out, int status, const char *code,
                         const char *sentence)
{
    int err = sl_buf_add(out, SL_STR("{\"type\":\"about:blank\",\"title\":"));

    if (!err)
        err = sl_json_string(out, title_of(status));
    if (!err)
        err = sl_buf_addf(out, ",\"status\":%d,\"detail\":", status);
    if (!err)
        err = sl_json_string(out, sl_str_c(sentence));
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"code\":"));
    if (!err)
        err = sl_json_string(out, sl_str_c(code));
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

void sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...)
{
    struct sl_buf *out = &call->text;
    char sentence[SENTENCE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    sl_buf_clear(out); /* of what the handler had begun */
    if (write_problem(out, status, code, sentence))
        sl_http_no_memory(call);
    else
        sl_http_answer(call, status, problem, sl_buf_str(out));
}

void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered)
{
    for (unsigned i = 0; i < rendered->header_count; i++)
        sl_http_field(call, rendered->headers[i].name,
                      rendered->headers[i].value);
    sl_http_answer(call, status, rendered->content_type, rendered->body);
}

void sl_http_stream(struct sl_http_call *call, struct sl_http_stream *stream)
{
    call->stream = stream;
}

sl_ns sl_http_now(const struct sl_http_call *call)
{
    const struct sl_http_worker *worker = call->worker;

    return worker->loop ? sl_loop_now(worker->loop) : worker->still;
}
