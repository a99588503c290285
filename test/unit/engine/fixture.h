/* fixture.h -- what tests of this layer share beside asking.h: explanations,
 * verdicts, failing allocations, and a store that plays a remote store. */
#ifndef SL_ENGINE_FIXTURE_H
#define SL_ENGINE_FIXTURE_H

#include "asking.h"
#include "engine/render.h"
#include "fail.h"

/* The text of a buffer, until the next call. */
static inline const char *rig_text(struct sl_buf *buf)
{
    static char text[1 << 16];

    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(sl_buf_str(buf)));
    sl_buf_done(buf);
    return text;
}

static inline void rig_verdict(const struct sl_decision *d, bool explained,
                               struct sl_buf *out)
{
    struct sl_rendered rendered;
    struct sl_arena arena;

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    sl_buf_init(out, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_render(d, &arena, &rendered), 0);
    CHECK_EQ(sl_render_verdict(d, &rendered, explained, out), 0);
    sl_arena_done(&arena);
}

/* The decision as the JSON of /v1/check, or of /v1/explain. It is the same with
 * and without the texts of the active policy. */
static inline const char *rig_json(const struct sl_decision *d, bool explained)
{
    struct sl_decision *own = (struct sl_decision *)(uintptr_t)d;
    const struct sl_limit_texts *texts = d->texts;
    struct sl_buf out, plain;

    rig_verdict(d, explained, &out);
    own->texts = NULL;
    rig_verdict(d, explained, &plain);
    own->texts = texts;
    CHECK(sl_str_eq(sl_buf_str(&out), sl_buf_str(&plain)));
    sl_buf_done(&plain);
    return rig_text(&out);
}

/* The explanation of a decision. */
static inline const char *rig_explained(const struct sl_decision *d)
{
    struct sl_buf out;

    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_explain(d, &out), 0);
    return rig_text(&out);
}

/* Decide without spending; the explanation. */
static inline const char *rig_explain(struct rig *rig,
                                      struct sl_request request)
{
    request.now = rig->now;
    CHECK_EQ(rig_decide(rig, &request, 1, NULL, false), 0);
    return rig_explained(&rig->d);
}

/* Explain `request` with each allocation failing in turn: it is an error, and
 * nothing leaks. Returns how many errors there were. */
static inline unsigned rig_no_memory(struct rig *rig, struct sl_request request)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_check check;
    unsigned errors = 0;
    int err;

    request.now = rig->now;
    do {
        fail.nth++;
        fail.calls = 0;
        rig_check(&check, rig->engine, &alloc);
        sl_check_start(&check, &request, 1, false);
        err = check.err;
        CHECK(err == SLUICE_ENOMEM ||
              (err == 0 && check.decision.status == 200));
        sl_check_done(&check);
        fail_check(&fail);
        errors += err != 0;
    } while (fail.calls >= fail.nth && fail.nth < 100);
    CHECK_EQ(err, 0);
    return errors;
}

/* Does `text` contain `part`? */
static inline bool has(const char *text, const char *part)
{
    if (!strstr(text, part))
        printf("# %s\n#   lacks %s\n", text, part);
    return strstr(text, part) != NULL;
}

/* ---- a store that is elsewhere ----
 *
 * The memory store, which is asked by names. It answers at once, later, or
 * fails. What it was asked for is written down. */

#define FAR_ASKED 256

struct far {
    struct sl_store store; /* first */
    struct sl_store *inner;
    bool fails;       /* with SLUICE_ESTORE */
    bool sent;        /* and perhaps it has arrived */
    unsigned fail_at; /* the take of this number fails, from 1; 0: none */
    bool late;        /* takes wait for far_answer() */
    sl_ns retry;
    unsigned kept; /* takes that are to stay taken, if they were */
    struct sl_take *waiting[FAR_ASKED];
    unsigned waiting_count;
    unsigned takes; /* that came */
    char log[8192]; /* "take a:1,b:1\n" */
};

static const char *const op_names[] = {"take",   "look", "each",
                                       "charge", "back", "reset"};

static inline void far_note(struct far *far, const struct sl_take *take)
{
    size_t len = strlen(far->log);

    len += (size_t)snprintf(far->log + len, sizeof(far->log) - len, "%s ",
                            op_names[take->op]);
    for (unsigned i = 0; i < take->count && len < sizeof(far->log); i++)
        len += (size_t)snprintf(far->log + len, sizeof(far->log) - len,
                                "%s%.*s%s%llu", i ? "," : "",
                                SL_STR_ARG(take->parts[i].name),
                                take->parts[i].carried ? "*" : "=",
                                (unsigned long long)take->parts[i].cost);
    if (len < sizeof(far->log))
        snprintf(far->log + len, sizeof(far->log) - len, "\n");
}

/* By their names, as a shared store keeps them. */
static inline void far_carry_out(struct far *far, struct sl_take *take)
{
    for (unsigned i = 0; i < take->count; i++)
        take->parts[i].key = take->parts[i].name;
    far->inner->calls->take(far->inner, take);
}

static inline void far_do(struct far *far, struct sl_take *take)
{
    far_note(far, take);
    if (far->fails || ++far->takes == far->fail_at) {
        take->err = SLUICE_ESTORE;
        take->sent = far->sent;
        take->allowed = false;
        take->done(take);
        return;
    }
    far_carry_out(far, take);
}

static inline void far_take(struct sl_store *store, struct sl_take *take)
{
    struct far *far = (struct far *)store;

    if (far->late && far->waiting_count < FAR_ASKED)
        far->waiting[far->waiting_count++] = take;
    else
        far_do(far, take);
}

/* Answer all that waits; what is asked meanwhile waits for the next call. */
static inline unsigned far_answer(struct far *far)
{
    struct sl_take *list[FAR_ASKED];
    unsigned count = far->waiting_count;

    memcpy(list, far->waiting, sizeof(list));
    far->waiting_count = 0;
    for (unsigned i = 0; i < count; i++)
        far_do(far, list[i]);
    return count;
}

static inline int far_bind(struct sl_store *store,
                           struct sl_limit_binding *limits, unsigned count,
                           struct sl_diag *diag)
{
    struct sl_store *inner = ((struct far *)store)->inner;

    return inner->calls->bind(inner, limits, count, diag);
}

static inline int far_tighten(struct sl_store *store,
                              const struct sl_limit_binding *limit,
                              const struct sl_limit *strictest)
{
    struct sl_store *inner = ((struct far *)store)->inner;

    return inner->calls->tighten(inner, limit, strictest);
}

static inline void far_close(struct sl_store *store)
{
    sl_store_close(((struct far *)store)->inner);
}

static inline sl_ns far_retry_in(const struct sl_store *store,
                                 const struct sl_loop *loop)
{
    (void)loop;
    return ((const struct far *)store)->retry;
}

static inline void far_keep(struct sl_store *store, struct sl_loop *loop)
{
    (void)loop;
    ((struct far *)store)->kept++;
}

static const struct sl_store_calls far_calls = {
    .bind = far_bind,
    .tighten = far_tighten,
    .take = far_take,
    .close = far_close,
    .keep = far_keep,
    .retry_in = far_retry_in,
};

/* An engine over such a store, with the policy of `text`. */
static inline void far_open(struct far *far, struct rig *rig, const char *text,
                            bool in_slots)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = rig};

    memset(far, 0, sizeof(*far));
    if (sl_memory_open(&memory, &far->inner, &rig->diag)) {
        printf("Bail out! %s\n", rig->diag.sentence);
        exit(1);
    }
    far->store.calls = &far_calls;
    far->store.secret = far->inner->secret;
    far->store.wants_names = true;
    far->store.in_slots = in_slots;
    rig_open_on(rig, text, &far->store);
}

/* What it was asked for since the last time. */
static inline const char *far_asked(struct far *far)
{
    static char text[sizeof(far->log)];

    memcpy(text, far->log, sizeof(text));
    far->log[0] = '\0';
    return text;
}

#endif
