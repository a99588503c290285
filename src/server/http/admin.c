/* admin.c -- the admin listener: health, features, policy, metrics, the clock
 * of tests, and the table of all paths.
 *
 * /livez answers that the process runs. It does not ask the store: a restart
 * would not repair it. /readyz answers whether requests should be sent here.
 * /healthz is the same under another name.
 */
#include "server/http/admin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"
#include "server/http/static_files.h"

static const struct sl_str plain = {"text/plain; charset=utf-8", 25};

static void answer(struct sl_http_call *call, int err, struct sl_str type)
{
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    if (!err)
        sl_http_answer(call, 200, type, sl_buf_str(&call->text));
    else if (err == SLUICE_EFULL)
        sl_http_refuse(call, 500, "TOO_LARGE",
                       "the answer is larger than %zu bytes",
                       call->text.ceiling);
    else
        sl_http_no_memory(call);
}

void sl_admin_answer_json(struct sl_http_call *call, int err)
{
    answer(call, err, SL_STR("application/json"));
}

void sl_admin_answerf(struct sl_http_call *call, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sl_admin_answer_json(call, sl_buf_add(&call->text, sl_str_c(text)));
}

bool sl_admin_member(struct sl_http_call *call, const char *name,
                     sl_json_field_f *read, const char *like, void *at)
{
    struct sl_str member = sl_str_c(name), found;
    struct sl_json_body body;
    bool more = false;

    sl_json_body_begin(&body, call, "body");
    if (body.json.text.len > SL_ADMIN_BODY)
        return sl_http_refuse(call, 413, "TOO_LARGE",
                              "the body has %zu bytes, more than %zu; send %s",
                              body.json.text.len, SL_ADMIN_BODY, like);
    if (sl_json_enter(&body.json, '{') && sl_json_member(&body.json, &found) &&
        sl_str_eq(found, member)) {
        if (!read(&body, member, at))
            return sl_json_body_answer(&body);
        more = sl_json_member(&body.json, &found);
        if (!more && !body.json.why && sl_json_end(&body.json))
            return true;
    }
    if (body.json.no_memory)
        return sl_http_no_memory(call);
    return sl_http_refuse(
        call, 400, "BAD_REQUEST",
        "the body must be an object with only \"%s\"%s%s; send %s", name,
        body.json.why ? ": " : "", body.json.why ? body.json.why : "", like);
}

/* ---- health ---- */

static bool is_verbose(const struct sl_http_call *call)
{
    return sl_str_eq(call->query, SL_STR("verbose")) ||
           sl_str_eq(call->query, SL_STR("verbose=1")) ||
           sl_str_eq(call->query, SL_STR("verbose=true"));
}

static void livez(struct sl_http_call *call)
{
    answer(call,
           sl_buf_add(&call->text, is_verbose(call)
                                       ? SL_STR("[+] process: running\nok\n")
                                       : SL_STR("ok\n")),
           plain);
}

/* A daemon without its database decides what it can: it is ready. */
static int describe_database(struct sl_http_call *call, struct sl_buf *why)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_writer w = {.out = &call->text}, all = {.out = why};
    bool verbose = is_verbose(call);
    struct sl_buf reason;
    int up;

    sl_buf_init(&reason, 512, call->worker->alloc);
    up = admin->database ? admin->database(admin->ctx, &reason) : -1;
    if (verbose && up > 0)
        sl_writer_add(&w, SL_STR("[+] database: ok\n"));
    else if (verbose && up == 0)
        sl_writer_addf(&w, "[!] database: down: %.*s\n",
                       SL_STR_ARG(sl_buf_str(&reason)));
    else if (up == 0)
        sl_writer_addf(&all, "%sdatabase: down: %.*s", why->len > 0 ? "; " : "",
                       SL_STR_ARG(sl_buf_str(&reason)));
    sl_buf_done(&reason);
    return w.err;
}

static int describe(struct sl_http_call *call, bool ready, struct sl_buf *text)
{
    struct sl_writer w = {.out = &call->text};
    bool verbose = is_verbose(call);
    struct sl_str why;

    if (verbose)
        sl_writer_add(&w, SL_STR("[+] process: running\n"));
    if (!w.err && ready)
        w.err = describe_database(call, text);
    why = sl_buf_str(text);
    if (!ready)
        sl_writer_addf(&w, "%s%.*s\n%s", verbose ? "[-] requests: " : "",
                       SL_STR_ARG(why), verbose ? "not ready\n" : "");
    else if (why.len > 0)
        sl_writer_addf(&w, "%sdegraded: %.*s\n%s", verbose ? "[!] " : "",
                       SL_STR_ARG(why), verbose ? "ok\n" : "");
    else
        sl_writer_addf(&w, "%sok\n", verbose ? "[+] requests: served\n" : "");
    return w.err;
}

static void readyz(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_buf why;
    bool ready;

    sl_buf_init(&why, 1024, call->worker->alloc);
    ready = admin->ready(admin->ctx, &why);
    if (!ready && why.len == 0 && sl_buf_add(&why, SL_STR("not serving")))
        why.len = 0; /* the status is enough */
    answer(call, describe(call, ready, &why), plain);
    if (!ready)
        call->status = 503;
    sl_buf_done(&why);
}

/* ---- the clock of tests ---- */

/* Read "2026-03-31T23:59:59Z", or nanoseconds since 1970. */
static bool read_instant(struct sl_json_body *r, struct sl_str member, void *at)
{
    bool is_number = sl_json_peek(&r->json) == SL_JSON_NUMBER;
    struct sl_str text = sl_str_from(r->json.text, r->json.at);
    struct sl_diag diag = {0};
    size_t len = 0;
    uint64_t ns;

    while (len < text.len && text.at[len] >= '0' && text.at[len] <= '9')
        len++;
    text.len = len;
    if (is_number && !sl_parse_number(text, &ns, NULL) && ns < SL_TIME_END) {
        r->json.at += text.len; /* larger than sl_json_whole() reads */
        *(sl_ns *)at = (sl_ns)ns;
        return true;
    }
    if (sl_json_peek(&r->json) != SL_JSON_STRING)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"now\" must be a time like \"2026-03-31T23:59:59Z\", or "
            "nanoseconds since 1970");
    return sl_json_body_text(r, member, &text) &&
           (!sl_timestamp_parse(text, at, &diag) ||
            sl_json_body_refuse(r, "BAD_REQUEST", "\"now\": %s",
                                diag.sentence));
}

/* Set the clock. ?forget=true also clears all usage. */
static void move_clock(struct sl_http_call *call, sl_ns now)
{
    const struct sl_admin *admin = sl_admin_of(call);
    char text[SL_TIMESTAMP_TEXT];
    int err = 0;

    if (sl_str_eq(call->query, SL_STR("forget=true")))
        err = admin->forget ? admin->forget(admin->ctx) : SLUICE_EINVAL;
    if (!err)
        err = admin->set_clock(admin->ctx, now);
    sl_timestamp_print(now, true, text);
    if (err)
        sl_http_refuse(call, 500, "CLOCK", "the clock could not be set");
    else
        sl_admin_answerf(call, "{\"now\":\"%s\",\"ns\":%" PRId64 "}", text,
                         now);
}

/* The registry is cleared. */
static void on_cleared(struct sl_http_job *op)
{
    move_clock(op->call, op->job.now);
}

static void set_clock(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    bool forget = sl_str_eq(call->query, SL_STR("forget=true"));
    struct sl_http_job *op;
    sl_ns now;

    if (!admin->set_clock) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "this daemon has no virtual clock");
        return;
    }
    if (!sl_admin_member(call, "now", read_instant,
                         "{\"now\":\"2026-03-31T23:59:59Z\"}", &now))
        return;
    if (!forget || !admin->registry) {
        move_clock(call, now);
        return;
    }
    op = sl_http_job_new(call, SL_JOB_CLEAR, on_cleared);
    if (!op)
        return;
    op->job.now = now;
    /* Usage that is not recorded yet is deleted, too. */
    sl_usage_buffer_flush(call->worker->engine_ctx->meter);
    sl_http_job_send(op);
}

/* ---- features of the active policy ----
 *
 * A switch takes effect at once and is then written to the database, so that a
 * full disk does not stop it. The answer has `persisted`: does it survive a
 * restart? It overrides the policy and the environment until it is deleted.
 */

/* Write {"name":"assistant","enabled":true,"by_hand":false and no brace. */
static void open_feature(struct sl_writer *w,
                         const struct sl_active_policy *active, unsigned index)
{
    struct sl_str name = active->policy->features[index].name;

    sl_json_open(w, '{');
    sl_json_member_str(w, "name", name);
    sl_json_key(w, SL_STR("enabled"));
    sl_json_flag(w, atomic_load(&active->features[index]));
    sl_json_key(w, SL_STR("by_hand"));
    sl_json_flag(w, sl_engine_is_kept(active->engine, name));
}

/* The message that users see while it is off, if the policy has one. */
static void add_banner(struct sl_writer *w, const struct sl_template *message,
                       const struct sl_alloc *alloc)
{
    struct sl_buf text;

    sl_buf_init(&text, 65536, alloc);
    for (unsigned i = 0; i < message->count && !w->err; i++) {
        const struct sl_template_piece *piece = &message->pieces[i];

        w->err =
            piece->kind == SL_TEMPLATE_PIECE_LITERAL
                ? sl_buf_add(&text, piece->literal)
                : sl_buf_addf(&text, "{%s}", sl_holder_names[piece->holder]);
    }
    if (text.len > 0)
        sl_json_member_str(w, "message", sl_buf_str(&text));
    sl_buf_done(&text);
}

static void features(struct sl_http_call *call)
{
    const struct sl_active_policy *active = call->check.active;
    struct sl_writer w = {.out = &call->text};

    sl_writer_add(&w, SL_STR("{\"features\":["));
    for (unsigned i = 0; i < active->policy->feature_count; i++) {
        open_feature(&w, active, i);
        add_banner(&w, &active->policy->features[i].message,
                   call->worker->alloc);
        sl_json_close(&w, '}');
    }
    sl_writer_add(&w, SL_STR("]}"));
    sl_admin_answer_json(call, w.err);
}

static void refuse_unknown(struct sl_http_call *call)
{
    sl_http_refuse(call, 404, "NO_SUCH_FEATURE",
                   "the policy has no feature \"%.*s\"",
                   SL_STR_ARG(call->rest));
}

/* Answer the state of the feature. After a switch, `why` is the reason that it
 * was not written to the database, or NULL. */
static void answer_feature(struct sl_http_call *call, bool switched,
                           const char *why)
{
    /* Another policy may be active by now. */
    const struct sl_active_policy *active = sl_check_ref_policy(&call->check);
    int index = sl_policy_feature(active->policy, call->rest);
    struct sl_writer w = {.out = &call->text};

    if (index < 0) {
        refuse_unknown(call);
        return;
    }
    open_feature(&w, active, (unsigned)index);
    if (switched) {
        sl_json_key(&w, SL_STR("persisted"));
        sl_json_flag(&w, !why);
    }
    if (why)
        sl_json_member_str(&w, "why", sl_str_c(why));
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

static void feature_get(struct sl_http_call *call)
{
    answer_feature(call, false, NULL);
}

static void on_written(struct sl_job *job)
{
    struct sl_http_call *call = ((struct sl_http_job *)job->ctx)->call;

    answer_feature(call, true, job->err ? job->diag.sentence : NULL);
    sl_job_clear(job);
    sl_http_resume_finish(call);
}

/* Write the switch to the database, then answer. */
static void persist(struct sl_http_call *call, int on,
                    const struct sl_audit_note *note)
{
    struct sl_http_job *op;

    if (!sl_admin_of(call)->registry) {
        sl_http_audit_send(call, note);
        answer_feature(call, true,
                       "this daemon has no database (usage: none), so the "
                       "switch lasts until the restart");
        return;
    }
    op = sl_http_job_new(call, SL_JOB_SWITCH, NULL);
    if (!op)
        return;
    op->job.name = call->rest;
    op->job.by = sl_subject_by(call, (struct sl_str){"", 0});
    op->job.on = on;
    op->job.audit = note;
    op->job.done = on_written;
    sl_http_job_send(op);
}

/* The state of the feature, as JSON for the audit. */
static struct sl_str state_of(const struct sl_http_call *call)
{
    const struct sl_active_policy *active = call->check.active;
    int index = sl_policy_feature(active->policy, call->rest);

    if (index < 0)
        return SL_STR("");
    return atomic_load(&active->features[index])
               ? SL_STR("{\"enabled\":true}")
               : SL_STR("{\"enabled\":false}");
}

static void switch_to(struct sl_http_call *call, int on)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_audit_note *note =
        sl_http_audit(call, "feature", SL_STR("feature"), call->rest);
    struct sl_str before = state_of(call);
    struct sl_diag diag = {0};
    int err = admin->feature(admin->ctx, call->rest, on, &diag);

    if (err == SLUICE_ENOENT)
        refuse_unknown(call);
    else if (err)
        sl_http_refuse(call, 500, "FEATURE", "the feature was not switched: %s",
                       diag.sentence);
    else if (note) {
        note->before = before;
        note->after = state_of(call);
        persist(call, on, note);
    } else {
        sl_http_no_memory(call);
    }
}

static void feature_leave(struct sl_http_call *call)
{
    switch_to(call, -1);
}

static void feature_set(struct sl_http_call *call)
{
    bool on;

    if (sl_admin_member(call, "enabled", sl_json_body_flag,
                        "{\"enabled\":false}", &on))
        switch_to(call, on);
}

/* ---- requests of web pages are refused ----
 *
 * Without a token a listener is open to its machine. A browser on the
 * machine sends requests for any web page: a page can post to
 * http://127.0.0.1:9090, and with a name that resolves to 127.0.0.1 it can also
 * read the answer. Two fields show such requests:
 *
 *   Origin   is the page, and is not equal to Host
 *   Host     is a name of the page; operators use localhost, an address or a
 *            name in `hosts`
 *
 * On the http listener, /v1/auth and /v1/deny are excepted: proxies pass on the
 * Host and the Origin of their client.
 */

static bool begins(struct sl_str text, struct sl_str with)
{
    return text.len >= with.len &&
           sl_str_eq_nocase((struct sl_str){text.at, with.len}, with);
}

/* Returns HOST:PORT of "http://HOST:PORT", or an empty slice. */
static struct sl_str host_of(struct sl_str origin)
{
    if (begins(origin, SL_STR("http://")))
        return sl_str_from(origin, 7);
    if (begins(origin, SL_STR("https://")))
        return sl_str_from(origin, 8);
    return (struct sl_str){"", 0};
}

/* Is the host an address, localhost or one of `hosts` of the settings, with or
 * without a port? */
static bool is_own_name(struct sl_str hosts, struct sl_str host)
{
    const char *colon = host.len ? memchr(host.at, ':', host.len) : NULL;
    struct sl_ip ip;

    if (sl_ip_parse(host, &ip))
        return true;
    if (colon)
        host.len = (size_t)(colon - host.at);
    while (hosts.len > 0)
        if (sl_str_eq_nocase(host, sl_admin_cut(&hosts, ',')))
            return true;
    return sl_str_eq_nocase(host, SL_STR("localhost"));
}

static bool is_open(const struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;

    return server->token.len == 0 && !server->accepts_client_cert &&
           !call->peer_is_unix;
}

bool sl_http_is_foreign(struct sl_http_call *call)
{
    struct sl_str host = call->request->host;

    if (!is_open(call) || host.len == 0 ||
        is_own_name(call->worker->server->hosts, host))
        return false;
    sl_http_refuse(call, 403, "WRONG_HOST",
                   "without a token, the Host header must be localhost, an "
                   "address or a name in server.hosts, not %.*s",
                   SL_STR_ARG(host));
    return true;
}

bool sl_admin_admit(struct sl_http_call *call)
{
    struct sl_str host = call->request->host;
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);

    if (count > 0 && (count > 1 || host.len == 0 ||
                      !sl_str_eq_nocase(host_of(origin), host)))
        return sl_http_refuse(call, 403, "CROSS_ORIGIN",
                              "pages of %.*s are not allowed to do this",
                              SL_STR_ARG(origin));
    return !sl_http_is_foreign(call);
}

/* ---- GET /metrics, in the format that the client prefers ---- */

static const struct sl_str prometheus = {
    "text/plain; version=0.0.4; charset=utf-8", 40};
static const struct sl_str open_metrics = {
    "application/openmetrics-text; version=1.0.0; charset=utf-8", 58};

/* Returns 750 for "q=0.75", and 1000 for any other parameter. */
static unsigned read_q(struct sl_str parameter)
{
    unsigned q = 0, unit = 1000;

    if (parameter.len < 3 || (parameter.at[0] | 32) != 'q' ||
        parameter.at[1] != '=')
        return 1000;
    for (size_t i = 2; i < parameter.len && unit > 0; i++) {
        char c = parameter.at[i];

        if (c == '.')
            continue;
        if (c < '0' || c > '9')
            return 0;
        q += unit * (unsigned)(c - '0');
        unit /= 10;
    }
    return q < 1000 ? q : 1000;
}

/* Returns the largest q of the ranges for `type`; 0 if there is none. */
static unsigned wish(struct sl_str accept, struct sl_str type)
{
    unsigned best = 0;

    while (accept.len > 0) {
        struct sl_str range = sl_admin_cut(&accept, ',');
        bool named =
            sl_str_eq_nocase(sl_str_trim(sl_admin_cut(&range, ';')), type);
        unsigned q = 1000;

        while (range.len > 0) {
            unsigned said = read_q(sl_str_trim(sl_admin_cut(&range, ';')));

            q = said < q ? said : q;
        }
        if (named && q > best)
            best = q;
    }
    return best;
}

static void metrics(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_str accept =
        sl_http1_field(call->request, SL_STR("accept"), NULL);
    unsigned open = wish(accept, SL_STR("application/openmetrics-text"));
    bool is_open = open > 0 && open >= wish(accept, SL_STR("text/plain"));
    int err = admin->metrics(admin->ctx, is_open, &call->text);

    sl_http_field(call, SL_STR("Vary"), SL_STR("Accept"));
    answer(call, err, is_open ? open_metrics : prometheus);
}

/* ---- the active policy: show and reload ----
 *
 * A report has a line for each change or problem. Lines that begin with a blank
 * (the line of the file, the caret, the hint) belong to the problem above.
 */

#define REPORT_MOST  ((size_t)1 << 20)
#define MINUTES_MOST 60

static void policy_get(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);

    answer(call, admin->policy(admin->ctx, &call->text),
           SL_STR("application/yaml"));
}

static void rlconfig(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    int err = SLUICE_ENOENT;

    if (admin->configuration)
        err = admin->configuration(admin->ctx, &call->text);
    if (err == SLUICE_ENOENT)
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "this daemon runs a policy, see /v1/policy; /rlconfig "
                       "needs --compat envoy-ratelimit");
    else
        answer(call, err, SL_STR("text/plain"));
}

/* Cut the next entry off a report: a line and the indented lines below it. */
static struct sl_str next_entry(struct sl_str *rest)
{
    struct sl_str entry = *rest;
    size_t len = 0;

    while (len < rest->len &&
           (rest->at[len] != '\n' ||
            (len + 1 < rest->len &&
             (rest->at[len + 1] == ' ' || rest->at[len + 1] == '\t'))))
        len++;
    entry.len = len;
    *rest = sl_str_from(*rest, len + 1);
    return entry;
}

static bool is_warning(struct sl_str entry)
{
    static const struct sl_str mark = {"warning: ", 9};

    for (size_t at = 0; at + mark.len <= entry.len; at++)
        if (sl_str_begins(sl_str_from(entry, at), mark))
            return true;
    return false;
}

/* ,"warnings":[...] if there are some. */
static void write_warnings(struct sl_writer *w, struct sl_str report)
{
    bool any = false;

    while (report.len > 0) {
        struct sl_str entry = next_entry(&report);

        if (!is_warning(entry))
            continue;
        if (!any)
            sl_writer_add(w, SL_STR(",\"warnings\":["));
        any = true;
        sl_json_str(w, entry);
    }
    if (any)
        sl_writer_add(w, SL_STR("]"));
}

/* `what_if` is an object, or "". Warnings are among the changes of a policy
 * that is only checked, too. */
static void answer_report(struct sl_http_call *call, bool good, bool checked,
                          struct sl_str report, struct sl_str what_if)
{
    struct sl_writer w = {.out = &call->text};
    const struct sl_str all = report;

    sl_writer_add(&w, good ? SL_STR("{\"ok\":true,\"changes\":[")
                           : SL_STR("{\"ok\":false,\"code\":\"POLICY_REFUSED\","
                                    "\"message\":\"the policy was refused; the "
                                    "previous policy stays active\","
                                    "\"problems\":["));
    while (report.len > 0) {
        struct sl_str entry = next_entry(&report);

        if (entry.len > 0 && (!good || checked || !is_warning(entry)))
            sl_json_str(&w, entry);
    }
    sl_writer_add(&w, SL_STR("]"));
    if (good)
        write_warnings(&w, all);
    if (what_if.len > 0) {
        sl_writer_add(&w, SL_STR(",\"what_if\":"));
        sl_writer_add(&w, what_if);
    }
    sl_writer_add(&w, SL_STR("}"));
    sl_admin_answer_json(call, w.err);
    if (!w.err && !good)
        call->status = 422;
}

static void policy_post(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_buf report;
    int err;

    sl_buf_init(&report, REPORT_MOST, call->worker->alloc);
    err = admin->reload(admin->ctx, call->request->body, &report);
    if (!err)
        sl_http_audit_send(
            call, sl_http_audit(call, "policy", SL_STR("policy"), SL_STR("")));
    if (!err || err == SLUICE_ECONF)
        answer_report(call, !err, false, sl_buf_str(&report), SL_STR(""));
    else if (err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 500, "RELOAD_FAILED",
                       "the policy could not be activated%s%.*s",
                       report.len ? ": " : "", SL_STR_ARG(sl_buf_str(&report)));
    sl_buf_done(&report);
}

/* What POST /v1/policy with this body would change, and with ?minutes=10 what
 * it would have decided in the last minutes. Nothing is activated. */
static void policy_check(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_str text;
    const struct sl_admin_option option = {"minutes", &text};
    struct sl_buf report, what_if;
    uint64_t minutes = 0;
    int err = SLUICE_EINVAL;

    if (!sl_admin_options(call, &option, 1) ||
        !sl_admin_number(call, "minutes", text, 1, MINUTES_MOST,
                         "a number of minutes from 1 to 60", &minutes))
        return;
    sl_buf_init(&report, REPORT_MOST, call->worker->alloc);
    sl_buf_init(&what_if, REPORT_MOST, call->worker->alloc);
    if (admin->check_policy)
        err = admin->check_policy(admin->ctx, call->request->body,
                                  (unsigned)minutes, &report, &what_if);
    if (!err || err == SLUICE_ECONF)
        answer_report(call, !err, true, sl_buf_str(&report),
                      sl_buf_str(&what_if));
    else if (err == SLUICE_ENOMEM)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 500, "CHECK_FAILED",
                       "the policy could not be checked");
    sl_buf_done(&report);
    sl_buf_done(&what_if);
}

/* ---- queries such as ?by=denied&n=20, and names in paths ----
 *
 * Unknown options are refused with a list of the valid ones: a misspelt filter
 * must not be ignored.
 */

#define OPTIONS_MAX 8

int sl_admin_decode(struct sl_arena *arena, struct sl_str text, bool is_query,
                    struct sl_str *ret)
{
    char *out = sl_arena_take(arena, text.len + 1);
    size_t len = 0;

    if (!out)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '+' && is_query)
            c = ' ';
        if (c == '%') {
            int high = i + 2 < text.len ? sl_hex_value(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? sl_hex_value(text.at[i + 2]) : -1;

            if (high < 0 || low < 0 || high + low == 0)
                return SLUICE_ECONF;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    *ret = (struct sl_str){out, len};
    return 0;
}

struct sl_str sl_admin_cut(struct sl_str *rest, char mark)
{
    const char *end = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
    struct sl_str piece = {rest->at,
                           end ? (size_t)(end - rest->at) : rest->len};

    *rest = sl_str_from(*rest, piece.len + (end != NULL));
    return piece;
}

static bool refuse_option(struct sl_http_call *call, struct sl_str name,
                          const struct sl_admin_option *options, unsigned count)
{
    const char *names[OPTIONS_MAX];
    char all[100] = "; valid are: ";
    size_t len = strlen(all);

    for (unsigned i = 0; i < count && i < OPTIONS_MAX; i++) {
        names[i] = options[i].name;
        if (len < sizeof(all))
            len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
                                    i > 0 ? ", " : "", names[i]);
    }
    return sl_http_refuse(
        call, 400, "BAD_QUERY", "unknown option \"%.*s\" of %.*s%s",
        SL_STR_ARG(name), SL_STR_ARG(call->path),
        sl_hint_of(sl_str_nearest(name, names, count), all).text);
}

static bool read_pair(struct sl_http_call *call, struct sl_str pair,
                      const struct sl_admin_option *options, unsigned count)
{
    struct sl_str name = sl_admin_cut(&pair, '='), value;
    int err;

    for (unsigned i = 0; i < count; i++) {
        if (!sl_str_eq(name, sl_str_c(options[i].name)))
            continue;
        err = sl_admin_decode(&call->arena, pair, true, &value);
        if (err == SLUICE_ENOMEM)
            sl_http_no_memory(call);
        else if (err)
            sl_http_refuse(
                call, 400, "BAD_QUERY",
                "\"%.*s\" is not encoded as a query; write %%25 for a %%",
                SL_STR_ARG(pair));
        else if (options[i].value->len > 0)
            sl_http_refuse(call, 400, "BAD_QUERY", "\"%s\" is given twice",
                           options[i].name);
        else
            *options[i].value = value;
        return call->status == 200;
    }
    return refuse_option(call, name, options, count);
}

bool sl_admin_options(struct sl_http_call *call,
                      const struct sl_admin_option *options, unsigned count)
{
    struct sl_str query = call->query;

    for (unsigned i = 0; i < count; i++)
        *options[i].value = (struct sl_str){"", 0};
    while (query.len > 0) {
        struct sl_str pair = sl_admin_cut(&query, '&');

        if (pair.len > 0 && !read_pair(call, pair, options, count))
            return false;
    }
    return true;
}

static bool refuse_value(struct sl_http_call *call, const char *name,
                         const char *wanted, struct sl_str text)
{
    return sl_http_refuse(call, 400, "BAD_QUERY",
                          "\"%s\" must be %s, not \"%.*s\"", name, wanted,
                          SL_STR_ARG(text));
}

bool sl_admin_word(struct sl_http_call *call, const char *name,
                   struct sl_str text, const char *const *words, unsigned count,
                   const char *wanted, unsigned *ret)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(text, sl_str_c(words[i]))) {
            *ret = i;
            return true;
        }
    return text.len == 0 || refuse_value(call, name, wanted, text);
}

bool sl_admin_number(struct sl_http_call *call, const char *name,
                     struct sl_str text, uint64_t least, uint64_t most,
                     const char *wanted, uint64_t *ret)
{
    uint64_t number;

    if (text.len == 0)
        return true;
    if (sl_parse_number(text, &number, NULL) || number < least || number > most)
        return refuse_value(call, name, wanted, text);
    *ret = number;
    return true;
}

/* ---- GET /v1/history, /v1/daemons ---- */

#define DAEMONS_MOST 1000

/* Read ?daemon=all, ?daemon=3, or nothing: this one. */
static bool read_daemon(struct sl_http_call *call, struct sl_str text, int *ret)
{
    uint64_t id = 0;

    *ret = SL_DAEMON_SELF;
    if (sl_str_eq(text, SL_STR("all"))) {
        *ret = SL_DAEMON_ALL;
        return true;
    }
    if (!sl_admin_number(call, "daemon", text, 0, DAEMONS_MOST,
                         "\"all\", or the id of a daemon of /v1/daemons", &id))
        return false;
    if (text.len > 0)
        *ret = (int)id;
    return true;
}

static void history(struct sl_http_call *call)
{
    static const char *const steps[] = {"10s", "1m"};
    const struct sl_admin *admin = sl_admin_of(call);
    unsigned step = SL_HISTORY_10S;
    struct sl_str step_text, since_text, daemon_text;
    const struct sl_admin_option options[] = {
        {"step",   &step_text  },
        {"since",  &since_text },
        {"daemon", &daemon_text},
    };
    int daemon_id, err = SLUICE_ENOENT;
    uint64_t since = 0;

    if (!sl_admin_options(call, options, SL_LEN(options)) ||
        !sl_admin_word(call, "step", step_text, steps, 2, "10s or 1m", &step) ||
        !sl_admin_number(call, "since", since_text, 0, SL_TIME_END / SL_S,
                         "seconds since 1970", &since) ||
        !read_daemon(call, daemon_text, &daemon_id))
        return;
    if (admin->history)
        err = admin->history(admin->ctx, daemon_id, (enum sl_history_step)step,
                             (int64_t)since, &call->text);
    if (err == SLUICE_ENOENT)
        sl_http_refuse(call, 404, "NOT_FOUND", "this daemon has no history");
    else
        sl_admin_answer_json(call, err);
}

static void daemons(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);

    if (admin->daemons)
        sl_admin_answer_json(call, admin->daemons(admin->ctx, &call->text));
    else
        sl_http_refuse(call, 404, "NOT_FOUND", "this daemon knows no others");
}

/* ---- the table ---- */

/* A row that is too wide for columns. */
#define WEBHOOK(method, path, handle)                                          \
    {                                                                          \
        method, path, handle, SL_ACCESS_ADMIN, true                            \
    }

const struct sl_http_path sl_admin_paths[] = {
    {"GET",    "/livez",           livez,              SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/readyz",          readyz,             SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/healthz",         readyz,             SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/metrics",         metrics,            SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/ui",              sl_http_add_slash,  SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/ui/usage",        sl_http_add_slash,  SL_ACCESS_PUBLIC, 0   },
    {NULL,     "/ui/usage/data",   sl_usage_data,      SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/ui/",             sl_http_static,     SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/v1/session",      sl_session_get,     SL_ACCESS_PUBLIC, 0   },
    {"POST",   "/v1/session",      sl_session_post,    SL_ACCESS_PUBLIC, 0   },
    {"DELETE", "/v1/session",      sl_session_delete,  SL_ACCESS_PUBLIC, 0   },
    {"GET",    "/v1/history",      history,            SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/daemons",      daemons,            SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/limits",       sl_limit_list,      SL_ACCESS_ADMIN,  0   },
    {"GET",    "/rlconfig",        rlconfig,           SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/policy",       policy_get,         SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/policy/check", policy_check,       SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/policy",       policy_post,        SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/features",     features,           SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/features/",    feature_get,        SL_ACCESS_ADMIN,  0   },
    {"PUT",    "/v1/features/",    feature_set,        SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/features/",    feature_set,        SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/features/",    feature_leave,      SL_ACCESS_ADMIN,  0   },
    {"PUT",    "/v1/backlog/",     sl_backlog_put,     SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/clock",        set_clock,          SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/top",          sl_admin_top,       SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/events",       sl_admin_events,    SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/keys/",        sl_admin_key,       SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/keys/",        sl_admin_key,       SL_ACCESS_ADMIN,  true},
    {"GET",    "/v1/subjects",     sl_subject_list,    SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/subjects",     sl_subject_import,  SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/subjects/",    sl_subject_get,     SL_ACCESS_ADMIN,  0   },
    {"PUT",    "/v1/subjects/",    sl_subject_change,  SL_ACCESS_ADMIN,  0   },
    {"PATCH",  "/v1/subjects/",    sl_subject_change,  SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/subjects/",    sl_subject_change,  SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/credits/",     sl_credit_list,     SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/credits/",     sl_credit_give,     SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/credits/",     sl_credit_revoke,   SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/blocks",       sl_blocks_get,      SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/blocks/",      sl_block_set,       SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/blocks/",      sl_block_end,       SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/usage/",       sl_http_usage_read, SL_ACCESS_ADMIN,  0   },
    {"POST",   "/v1/usage/import", sl_usage_import,    SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/audit",        sl_audit_list,      SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/denials",      sl_denial_list,     SL_ACCESS_ADMIN,  0   },
    {"GET",    "/v1/leases",       sl_lease_list,      SL_ACCESS_ADMIN,  0   },
    {"DELETE", "/v1/leases/",      sl_lease_release,   SL_ACCESS_ADMIN,  0   },
    WEBHOOK("GET", "/v1/webhooks/messages", sl_webhook_message_list),
    WEBHOOK("GET", "/v1/webhooks/messages/", sl_webhook_message_get),
    WEBHOOK("POST", "/v1/webhooks/messages/", sl_webhook_message_replay),
    WEBHOOK("GET", "/v1/webhooks/attempts", sl_webhook_attempts),
};

const unsigned sl_admin_path_count = SL_LEN(sl_admin_paths);
