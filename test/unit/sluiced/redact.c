/* redact.c -- no spelling of a secret survives. */
#include "sluiced/policy_source.h"

#include "check.h"
#include "fail.h"
#include "row.h"

static const struct {
    const char *why, *text, *want;
} rows[] = {
    ROW("nothing to hide", "sluice: 1\nlimits: {}\n",
        "sluice: 1\nlimits: {}\n"),
    ROW("in double quotes",
        "server:\n  access_token: \"s3cret\"\n  memory: 1MiB\n",
        "server:\n  access_token: ********\n  memory: 1MiB\n"),
    ROW("in single quotes", "  admin_token: 's3''cret' # x\n",
        "  admin_token: ******** # x\n"),
    ROW("plain", "  access_token: s3cret\n  a: b\n",
        "  access_token: ********\n  a: b\n"),
    ROW("plain, with a comma", "  access_token: s3cret,s3cret\n",
        "  access_token: ********\n"),
    ROW("escaped", "  access_token: \"s3\\x63ret\\\"s3cret\"\n",
        "  access_token: ********\n"),
    ROW("in a flow", "server: { access_token: \"s3cret\", memory: 1MiB }\n",
        "server: { access_token: ********, memory: 1MiB }\n"),
    ROW("both in a flow",
        "server: { access_token: \"s3cret\", admin_token: \"s3cret\" }\n",
        "server: { access_token: ********, admin_token: ******** }\n"),
    ROW("a quoted key", "server: { \"access_token\": \"s3cret\" }\n",
        "server: { \"access_token\": ******** }\n"),
    ROW("a block",
        "server:\n  access_token: |\n    s3cret\n\n    s3cret\n  memory: "
        "1MiB\n",
        "server:\n  access_token: ********\n  memory: 1MiB\n"),
    ROW("on the next line", "server:\n  access_token:\n    s3cret\n  a: b\n",
        "server:\n  access_token:********\n  a: b\n"),
    ROW("a quote that goes on", "  access_token: \"s3\\\n    cret\"\n  a: b\n",
        "  access_token: ********\n  a: b\n"),
    ROW("elsewhere", "# it is s3cret\n  access_token: \"s3cret\"\n",
        "# it is ********\n  access_token: ********\n"),
    ROW("without an end of line", "  access_token: s3cret",
        "  access_token: ********"),
    ROW("where it is stays",
        "  access_token: \"${FILE:./token}\"\n  admin_token: \"${ENV:T}\"\n",
        "  access_token: \"${FILE:./token}\"\n  admin_token: \"${ENV:T}\"\n"),
    ROW("but not with more of it", "  access_token: \"${ENV:T}s3cret\"\n",
        "  access_token: ********\n"),
    ROW("another key", "  my_access_token: x\n  access_tokens: y\n",
        "  my_access_token: x\n  access_tokens: y\n"),
    ROW("a store's password",
        "server: { store: \"redis://u:s3cret@h:1/2\", memory: 1MiB }\n",
        "server: { store: \"redis://********@h:1/2\", memory: 1MiB }\n"),
    ROW("plain, and with an @ in it", "  store: redis://:s3@cret@h\n  a: b\n",
        "  store: redis://********@h\n  a: b\n"),
    ROW("spelt otherwise", "  store: \"redis://:s3\\x63ret@h\" # x\n",
        "  store: \"redis://********@h\" # x\n"),
    ROW("a sentinel's",
        "  store: 'redis+sentinel://h/m?sentinel_password=s3'\n",
        "  store: ********\n"),
    ROW("a store over lines",
        "  store: \"redis://:s3\\\n    cret@h\"\n  a: b\n",
        "  store: ********\n  a: b\n"),
    ROW("a store as a block", "  store: >-\n    redis://:s3cret@h\n  a: b\n",
        "  store: ********\n  a: b\n"),
    ROW("a store on the next line",
        "  store:\n\n    \"redis://:s3\\x63ret@h\"\n  a: b\n",
        "  store:\n\n    \"redis://********@h\"\n  a: b\n"),
    ROW("a store without a password", "  store: \"redis://h:1\"\n",
        "  store: \"redis://h:1\"\n"),
    ROW("limits may be called so",
        "  usage: { kind: quota, secret: s3cret }\n  store:\n    kind: quota\n",
        "  usage: { kind: quota, secret: ********\n  store:\n    kind: "
        "quota\n"),
    ROW("on_store_failure is another key", "  on_store_failure: allow\n",
        "  on_store_failure: allow\n"),
    ROW("a key alone ends a line", "server:\n  memory: 1MiB\n",
        "server:\n  memory: 1MiB\n"),
};

int main(void)
{
    struct sl_str secrets[] = {SL_STR("s3cret"), SL_STR("")};

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_buf out;

        CASE(rows[i].why);
        sl_buf_init(&out, 4096, &sl_alloc_libc);
        CHECK_EQ(sl_redact(sl_str_c(rows[i].text), secrets, 2, &out), 0);
        CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
        CHECK_STR(out.bytes, rows[i].want);
        CHECK(strstr(out.bytes, "s3cret") == NULL);
        sl_buf_done(&out);
    }
    CASE("no memory is an error, and no leak");
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_buf none;

    sl_buf_init(&none, 4096, &alloc);
    CHECK_EQ(sl_redact(SL_STR("sluice: 1\n"), secrets, 2, &none),
             SLUICE_ENOMEM);
    sl_buf_done(&none);
    fail_check(&fail);

    CASE("no room is an error");
    struct sl_buf small;

    sl_buf_init(&small, 4, &sl_alloc_libc);
    CHECK_EQ(sl_redact(SL_STR("sluice: 1\n"), secrets, 2, &small),
             SLUICE_EFULL);
    sl_buf_done(&small);
    return CHECK_DONE();
}
