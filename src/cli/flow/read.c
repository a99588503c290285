/* read.c -- read a flow file, line by line.
 *
 *   flow "NAME"      begins a flow
 *   policy PATH      of this flow; before the first flow: the default
 *   at TIME          moves the clock
 *   ACT [INPUT...] [-> EXPECTATION...]
 */
#include <string.h>

#include "base/parse.h"
#include "cli/flow/flow.h"

/* 1 MB of the shortest lines becomes about 50 MB of acts. */
#define ARENA_BYTES ((size_t)256 << 20)

struct reader {
    struct sl_flow_file *file;
    struct sl_flow_line line; /* the current line */
    unsigned number;          /* of the line */
    const char *policy;       /* the default for flows without a policy */
};

/* An act that begins with a keyword. */
struct form {
    const char *word;
    enum sl_flow_act_kind kind;
    unsigned names; /* number of names */
    bool inputs;    /* NAME=VALUE may follow */
    const char *usage;
};

static const struct form forms[] = {
    {"job",     SL_FLOW_ACT_JOB,     1, true,  "job NAME"                     },
    {"take",    SL_FLOW_ACT_TAKE,    2, true,  "take LIMIT KEY"               },
    {"usage",   SL_FLOW_ACT_USAGE,   4, true,  "usage SCOPE ID LIMIT AMOUNT"  },
    {"failed",  SL_FLOW_ACT_FAILED,  2, true,  "failed LIMIT KEY"             },
    {"settle",  SL_FLOW_ACT_SETTLE,  1, true,  "settle NAME cost=N"           },
    {"release", SL_FLOW_ACT_RELEASE, 1, true,  "release NAME"                 },
    {"extend",  SL_FLOW_ACT_EXTEND,  1, true,  "extend NAME hold=TIME"        },
    {"subject", SL_FLOW_ACT_SUBJECT, 2, true,  "subject user|org ID plan=NAME"},
    {"block",   SL_FLOW_ACT_BLOCK,   2, true,  "block user|org|ip ID"         },
    {"unblock", SL_FLOW_ACT_UNBLOCK, 2, false, "unblock user|org|ip ID"       },
    {"feature", SL_FLOW_ACT_FEATURE, 2, false, "feature NAME on|off"          },
    {"backlog", SL_FLOW_ACT_BACKLOG, 2, false, "backlog NAME DEPTH"           },
    {"store",   SL_FLOW_ACT_STORE,   1, false, "store fails|slow|heals"       },
    {"reload",  SL_FLOW_ACT_RELOAD,  1, false, "reload PATH"                  },
    {"webhook", SL_FLOW_ACT_WEBHOOK, 2, true,  "webhook ORG URL"              },
};

static const struct form long_forms[] = {
    {"delivery",    SL_FLOW_ACT_DELIVERY,    1, true,  "delivery NAME"},
    {"destination", SL_FLOW_ACT_DESTINATION, 2, false,
     "destination URL STATUS"                                         },
};

static const struct form request = {"", SL_FLOW_ACT_REQUEST, 1, true,
                                    "METHOD PATH"};

/* The first words of a line, for suggestions. */
static const char *const beginnings[] = {
    "flow",    "policy",   "at",          "job",     "take",    "usage",
    "settle",  "extend",   "release",     "subject", "feature", "store",
    "reload",  "GET",      "backlog",     "POST",    "PUT",     "PATCH",
    "DELETE",  "HEAD",     "OPTIONS",     "block",   "unblock", "failed",
    "webhook", "delivery", "destination",
};

const char *sl_flow_path(const char *file, const char *path,
                         struct sl_arena *arena)
{
    const char *slash = strrchr(file, '/');
    size_t folder = slash ? (size_t)(slash - file) + 1 : 0;
    size_t len = strlen(path);
    char *whole;

    if (path[0] == '/')
        folder = 0;
    whole = sl_arena_take(arena, folder + len + 1);
    if (!whole)
        return NULL;
    memcpy(whole, file, folder);
    memcpy(whole + folder, path, len + 1);
    return whole;
}

/* Refuse the word at `index`. */
#define refuse(r, index, ...)                                                  \
    sl_flow_refuse(&(r)->line, (r)->line.words[index].column, __VA_ARGS__)

/* The column after the last word. */
static unsigned end_of(const struct reader *r)
{
    const struct sl_flow_word *last = &r->line.words[r->line.count - 1];

    return last->column + (unsigned)strlen(last->text);
}

/* A keyword and one value. */
static int one_thing(struct reader *r, const char *like)
{
    if (r->line.count < 2)
        return sl_flow_refuse(&r->line, end_of(r), "missing argument; write %s",
                              like);
    if (r->line.count > 2)
        return refuse(
            r, 2,
            "unexpected \"%s\"; write %s, and quote values that contain spaces",
            sl_quote(sl_str_c(r->line.words[2].text)).text, like);
    return 0;
}

static int read_flow(struct reader *r)
{
    struct sl_flow *flow;
    int err = one_thing(r, "flow \"description\"");

    if (err)
        return err;
    flow = sl_arena_take(r->line.arena, sizeof(*flow));
    if (!flow)
        return SLUICE_ENOMEM;
    *flow = (struct sl_flow){
        .name = r->line.words[1].text, .line = r->number, .policy = r->policy};
    if (r->file->last)
        r->file->last->next = flow;
    else
        r->file->flows = flow;
    r->file->last = flow;
    r->file->count++;
    return 0;
}

static int read_policy(struct reader *r)
{
    struct sl_flow *flow = r->file->last;
    const char *path;
    int err = one_thing(r, "policy PATH");

    if (err)
        return err;
    if (flow && flow->acts)
        return refuse(r, 0,
                      "the policy line must come before the first request; "
                      "use reload to change the policy later");
    if (flow ? flow->policy != r->policy : r->policy != NULL)
        return refuse(r, 0, "the flow already has a policy");
    path = sl_flow_path(r->file->name, r->line.words[1].text, r->line.arena);
    if (!path)
        return SLUICE_ENOMEM;
    if (flow)
        flow->policy = path;
    else
        r->policy = path;
    return 0;
}

/* Append an act to the current flow. */
static int new_act(struct reader *r, enum sl_flow_act_kind kind,
                   struct sl_flow_act **ret)
{
    struct sl_flow *flow = r->file->last;
    struct sl_flow_act *act;

    if (!flow)
        return refuse(r, 0,
                      "this line is outside of a flow; write flow "
                      "\"description\" before it");
    if (!flow->policy)
        return refuse(r, 0,
                      "the flow has no policy; write policy PATH before its "
                      "first request");
    act = sl_arena_take(r->line.arena, sizeof(*act));
    if (!act)
        return SLUICE_ENOMEM;
    *act = (struct sl_flow_act){.kind = kind, .line = r->number};
    if (flow->last)
        flow->last->next = act;
    else
        flow->acts = act;
    flow->last = act;
    flow->act_count += kind != SL_FLOW_ACT_AT;
    *ret = act;
    return 0;
}

static int read_at(struct reader *r)
{
    struct sl_flow_act *act;
    int err = one_thing(r, "at TIME, like 12s, +500ms or "
                           "2026-03-31T23:59:59Z");

    if (!err)
        err = new_act(r, SL_FLOW_ACT_AT, &act);
    if (err)
        return err;
    return sl_moment_read(&r->line, &r->line.words[1], r->line.words[1].text,
                          &act->when);
}

/* ---- the expectations after the arrow: 429 by=ai-minute retry=12s ----
 *
 * The field decides how a value is read. Texts are kept as they are; numbers
 * and durations are parsed. `none` means that the answer has no such value.
 */

enum want_form { TEXT, NUMBER, SPAN };

static const struct field {
    const char *name;
    enum sl_field field;
    enum want_form form;
    bool may_be_none;
} fields[] = {
    {"by",        SL_FIELD_BY,        TEXT,   true },
    {"limit",     SL_FIELD_LIMIT,     NUMBER, true },
    {"remaining", SL_FIELD_REMAINING, NUMBER, true },
    {"retry",     SL_FIELD_RETRY,     SPAN,   true },
    {"reset",     SL_FIELD_RESET,     SPAN,   true },
    {"wait",      SL_FIELD_WAIT,      SPAN,   true },
    {"quota",     SL_FIELD_QUOTA,     NUMBER, true },
    {"allowed",   SL_FIELD_ALLOWED,   NUMBER, false},
    {"denied",    SL_FIELD_DENIED,    NUMBER, false},
    {"tries",     SL_FIELD_TRIES,     NUMBER, false},
};

/* The names of fields, for suggestions. */
static const char *const names[] = {
    "by",    "limit",   "remaining", "retry", "reset",       "wait",
    "quota", "allowed", "denied",    "tries", "header.NAME", "body.FIELD",
};

static const char *const outcomes[] = {
    "allow",   "deny",     "never",   "ok",      "held",
    "settled", "released", "expired", "unknown", "delivered",
    "paced",   "retrying", "dead",    "disabled"};

static const struct field *find_field(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq(name, sl_str_c(fields[i].name)))
            return &fields[i];
    return NULL;
}

static int refuse_field(struct sl_flow_line *line,
                        const struct sl_flow_word *word)
{
    const char *near = sl_str_nearest(word->name, names, SL_LEN(names));

    sl_flow_refuse(
        line, word->column,
        "unknown expectation \"%.*s\"; valid are by, limit, remaining, retry, "
        "reset, wait, quota, allowed, denied, tries, header.NAME and "
        "body.FIELD",
        SL_STR_ARG(word->name));
    if (near)
        sl_diag_hint(line->diag, "%s=%s", near, word->value);
    return SLUICE_ECONF;
}

static int refuse_outcome(struct sl_flow_line *line,
                          const struct sl_flow_word *word, bool is_first)
{
    const char *near =
        sl_str_nearest(sl_str_c(word->text), outcomes, SL_LEN(outcomes));

    sl_flow_refuse(line, word->column,
                   "\"%s\" is not an expectation; write a status%s", word->text,
                   is_first ? ", allow, deny, never, ok or NAME=VALUE"
                            : " or a word first, then NAME=VALUE");
    if (near && is_first)
        sl_diag_hint(line->diag, "%s", near);
    return SLUICE_ECONF;
}

/* "429", or one of the outcomes. */
static int read_outcome(struct sl_flow_line *line,
                        const struct sl_flow_word *word, bool is_first,
                        struct sl_expect *ret)
{
    uint64_t status = 0;
    bool number = sl_parse_number(sl_str_c(word->text), &status, NULL) == 0;

    *ret = (struct sl_expect){
        .field = number ? SL_FIELD_STATUS : SL_FIELD_OUTCOME,
        .label = "",
        .want = word->text,
        .number = status,
    };
    if (!is_first)
        return refuse_outcome(line, word, is_first);
    if (number && (status < 100 || status > 599))
        return sl_flow_refuse(line, word->column,
                              "%s is not an HTTP status; write 100 to 599",
                              word->text);
    for (size_t i = 0; i < SL_LEN(outcomes) && !number; i++)
        number = sl_flow_word_is(word, outcomes[i]);
    return number ? 0 : refuse_outcome(line, word, is_first);
}

static int read_pair(struct sl_flow_line *line, const struct sl_flow_word *word,
                     struct sl_expect *ret)
{
    const struct field *field = find_field(word->name);
    bool header = sl_flow_word_under(word->name, "header.");
    bool body = sl_flow_word_under(word->name, "body.");
    struct sl_str value = sl_str_c(word->value);
    int err = 0;

    *ret = (struct sl_expect){.want = word->value};
    ret->label = sl_arena_copy(line->arena, word->name);
    if (!ret->label)
        return SLUICE_ENOMEM;
    if (header || body) {
        ret->field = header ? SL_FIELD_HEADER : SL_FIELD_BODY;
        ret->name = strchr(ret->label, '.') + 1;
        return 0;
    }
    if (!field)
        return refuse_field(line, word);
    ret->field = field->field;
    ret->none = field->may_be_none && sl_str_eq(value, SL_STR("none"));
    if (field->form == NUMBER && !ret->none)
        err = sl_parse_count(value, &ret->number, line->diag);
    if (field->form == SPAN && !ret->none)
        err = sl_parse_duration(value, &ret->span, line->diag);
    return err ? sl_flow_value_refused(line, word, err) : 0;
}

/* Read the words from `from` on as expectations. */
static int read_expects(struct sl_flow_line *line, size_t from,
                        struct sl_flow_act *act)
{
    size_t count = line->count - from;
    int err = 0;

    act->expects = sl_arena_take(line->arena, count * sizeof(*act->expects));
    if (!act->expects)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < count && !err; i++) {
        const struct sl_flow_word *word = &line->words[from + i];

        if (word->is_pair)
            err = read_pair(line, word, &act->expects[i]);
        else
            err = read_outcome(line, word, i == 0, &act->expects[i]);
        if (!err)
            err = sl_flow_word_once(line, from, from + i);
    }
    act->expect_count = count;
    return err;
}

/* ---- acts ---- */

/* Read the expectations after the arrow, if any. The words then end before the
 * arrow. */
static int read_arrow(struct reader *r, struct sl_flow_act *act)
{
    int err;

    for (size_t i = 0; i < r->line.count; i++) {
        if (!sl_flow_word_is(&r->line.words[i], "->"))
            continue;
        if (i + 1 == r->line.count)
            return refuse(r, i,
                          "no expectation after the arrow; write one, or "
                          "remove the arrow");
        err = read_expects(&r->line, i + 1, act);
        r->line.count = i;
        return err;
    }
    return 0;
}

/* Is the word an input in the place of a name? A path may contain an equals
 * sign. */
static bool is_no_name(const struct form *form, const struct sl_flow_word *word)
{
    if (word->quoted)
        return false;
    if (form->kind == SL_FLOW_ACT_REQUEST)
        return word->text[0] != '/' && word->text[0] != '*' &&
               strncmp(word->text, "http", 4) != 0;
    if (form->kind == SL_FLOW_ACT_WEBHOOK ||
        form->kind == SL_FLOW_ACT_DESTINATION)
        return word->is_pair && !strstr(word->text, "://");
    return word->is_pair;
}

/* Read the names of an act, from word `from` on. */
static int read_names(struct reader *r, const struct form *form, size_t from,
                      struct sl_flow_act *act)
{
    size_t behind = from + form->names;

    for (size_t i = from; i < behind; i++) {
        if (i >= r->line.count)
            return sl_flow_refuse(&r->line, end_of(r),
                                  "missing argument; write %s", form->usage);
        if (is_no_name(form, &r->line.words[i]))
            return refuse(r, i,
                          "found \"%s\" where %s is expected; quote it if "
                          "that is intended",
                          sl_quote(sl_str_c(r->line.words[i].text)).text,
                          form->usage);
        act->names[i - from] = r->line.words[i].text;
    }
    if (!form->inputs && behind < r->line.count)
        return refuse(r, behind, "unexpected \"%s\"; write %s",
                      sl_quote(sl_str_c(r->line.words[behind].text)).text,
                      form->usage);
    return 0;
}

static int read_inputs(struct reader *r, size_t from, struct sl_flow_act *act)
{
    struct sl_inputs *in = sl_arena_take(r->line.arena, sizeof(*in));
    int err = 0;

    if (!in)
        return SLUICE_ENOMEM;
    *in = (struct sl_inputs){.times = 1};
    act->in = in;
    for (size_t i = from; i < r->line.count && !err; i++)
        err = sl_input_read(&r->line, i, in);
    if (!err && in->every > 0 && in->times == 1)
        return refuse(r, 0, "every= needs a number of repeats, like x8");
    return err;
}

/* Is `text` one of the words in "a|b|c"? */
static bool is_one_of(const char *text, const char *words)
{
    const char *at = strstr(words, text);
    size_t len = strlen(text);

    return len > 0 && at && !strchr(text, '|') &&
           (at == words || at[-1] == '|') && (at[len] == '|' || !at[len]);
}

/* A final status of HTTP. */
static bool is_answer(const char *text)
{
    return strlen(text) == 3 && strspn(text, "0123456789") == 3 &&
           text[0] >= '2' && text[0] <= '5';
}

/* Acts with fixed words, whose only answer is ok. */
static int check_act(struct reader *r, const struct form *form,
                     const struct sl_flow_act *act)
{
    const char *first = act->names[0], *second = act->names[1];
    size_t wrong = 0;

    if (act->kind == SL_FLOW_ACT_FEATURE && !is_one_of(second, "on|off"))
        wrong = 2;
    if (act->kind == SL_FLOW_ACT_BACKLOG &&
        (second[strspn(second, "0123456789")] || strlen(second) >= 16))
        wrong = 2;
    if (act->kind == SL_FLOW_ACT_STORE && !is_one_of(first, "fails|slow|heals"))
        wrong = 1;
    if (act->kind == SL_FLOW_ACT_DESTINATION && !is_answer(second))
        wrong = 2;
    if (act->kind == SL_FLOW_ACT_SUBJECT && !is_one_of(first, "user|org"))
        wrong = 1;
    if ((act->kind == SL_FLOW_ACT_BLOCK || act->kind == SL_FLOW_ACT_UNBLOCK) &&
        !is_one_of(first, "user|org|ip"))
        wrong = 1;
    if (wrong)
        return refuse(r, wrong, "write %s", form->usage);
    if (!act->in && act->expect_count > 0 &&
        (act->expect_count > 1 || strcmp(act->expects[0].want, "ok") != 0))
        return refuse(r, 0,
                      "%s has no answer to check; remove the expectations",
                      form->word);
    return 0;
}

/* What an act can answer: the words of its outcome, and its other fields. */
struct answer_form {
    const char *outcomes;
    unsigned fields; /* bits by enum sl_field */
    const char *usage;
};

#define BIT(field) (1U << SL_FIELD_##field)

static const struct answer_form of_request = {
    .outcomes = "allow|deny|never|ok",
    .fields = ~BIT(TRIES),
    .usage = "",
};
static const struct answer_form of_hold = {
    .outcomes = "ok|held|settled|released|expired|unknown",
    .fields = BIT(STATUS) | BIT(BODY),
    .usage = "for a hold, expect ok, a state (settled, released, expired, "
             "held, unknown) or body.FIELD",
};
static const struct answer_form of_webhook = {
    .outcomes = "ok|allow|deny|delivered|paced|retrying|held|disabled",
    .fields = BIT(STATUS) | BIT(BY) | BIT(LIMIT) | BIT(REMAINING) | BIT(RETRY) |
              BIT(ALLOWED) | BIT(DENIED) | BIT(TRIES),
    .usage = "for a webhook, expect a state (delivered, paced, retrying, "
             "held, disabled), deny, 202, 402, by, limit, remaining, retry, "
             "tries, allowed or denied; none is dead before its last attempt: "
             "write as=NAME, let 1h12m35s pass, and expect delivery NAME -> "
             "dead",
};
static const struct answer_form of_delivery = {
    .outcomes = "delivered|paced|retrying|held|dead|disabled",
    .fields = BIT(RETRY) | BIT(TRIES),
    .usage = "for a delivery, expect a state (delivered, paced, retrying, "
             "held, dead, disabled), retry or tries",
};

static const struct answer_form *answer_of(enum sl_flow_act_kind kind)
{
    switch (kind) {
    case SL_FLOW_ACT_SETTLE:
    case SL_FLOW_ACT_RELEASE:
    case SL_FLOW_ACT_EXTEND:
        return &of_hold;
    case SL_FLOW_ACT_WEBHOOK:
        return &of_webhook;
    case SL_FLOW_ACT_DELIVERY:
        return &of_delivery;
    default:
        return &of_request;
    }
}

/* Holds and webhooks have states; requests do not. */
static int check_outcome(struct reader *r, const struct sl_flow_act *act)
{
    const struct answer_form *form = answer_of(act->kind);

    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];

        if (e->field == SL_FIELD_OUTCOME ? is_one_of(e->want, form->outcomes)
                                         : form->fields >> e->field & 1)
            continue;
        if (form->usage[0])
            return refuse(r, 0, "%s", form->usage);
        if (e->field == SL_FIELD_TRIES)
            return refuse(r, 0, "tries= is of webhooks");
        return refuse(
            r, 0, "\"%s\" is a state of a %s; write allow, deny or never",
            e->want, is_one_of(e->want, of_hold.outcomes) ? "hold" : "webhook");
    }
    if (act->kind == SL_FLOW_ACT_EXTEND && act->in->request.hold_ns == 0)
        return sl_flow_refuse(&r->line, end_of(r),
                              "missing duration; write extend NAME hold=TIME");
    return 0;
}

/* The inputs of webhooks, from word `from` on: they have few. */
static int check_inputs(struct reader *r, const struct form *form, size_t from)
{
    bool can_repeat = form->kind == SL_FLOW_ACT_WEBHOOK;

    if (!can_repeat && form->kind != SL_FLOW_ACT_DELIVERY)
        return 0;
    for (size_t i = from; i < r->line.count; i++) {
        const struct sl_flow_word *word = &r->line.words[i];

        if (!can_repeat ||
            (word->is_pair && !sl_str_eq(word->name, SL_STR("as")) &&
             !sl_str_eq(word->name, SL_STR("every"))))
            return refuse(r, i, "unexpected \"%s\"; write %s%s",
                          sl_quote(sl_str_c(word->text)).text, form->usage,
                          can_repeat ? ", and as=NAME or x8 every=TIME" : "");
    }
    return 0;
}

static int read_act(struct reader *r, const struct form *form)
{
    size_t behind = 1 + form->names;
    struct sl_flow_act *act;
    int err = new_act(r, form->kind, &act);

    if (!err)
        err = read_arrow(r, act);
    if (!err)
        err = read_names(r, form, 1, act);
    if (!err && form == &request) {
        act->names[1] = act->names[0];
        act->names[0] = r->line.words[0].text;
    }
    if (!err && form->kind == SL_FLOW_ACT_SUBJECT)
        err = sl_flow_subject_read(&r->line, behind, act);
    else if (!err && form->kind == SL_FLOW_ACT_BLOCK)
        err = sl_flow_block_read(&r->line, behind, act);
    else if (!err && form->inputs)
        err = read_inputs(r, behind, act);
    if (!err)
        err = check_inputs(r, form, behind);
    if (!err)
        err = check_outcome(r, act);
    return err ? err : check_act(r, form, act);
}

/* A method is a word in capitals. */
static bool is_method(const struct sl_flow_word *word)
{
    for (const char *at = word->text; *at; at++)
        if (!(*at >= 'A' && *at <= 'Z') &&
            !(at > word->text && (*at == '-' || *at == '_')))
            return false;
    return word->text[0] && !word->quoted;
}

static int refuse_beginning(struct reader *r)
{
    struct sl_str word = sl_str_c(r->line.words[0].text);
    const char *near = sl_str_nearest(word, beginnings, SL_LEN(beginnings));

    refuse(r, 0,
           "no statement begins with \"%s\"; write flow, policy, at, METHOD "
           "PATH, job, take, failed, settle, release, extend, subject, block, "
           "unblock, feature, backlog, store, reload, webhook, delivery or "
           "destination",
           sl_quote(word).text);
    if (near)
        sl_diag_hint(r->line.diag, "%s", near);
    return SLUICE_ECONF;
}

static int read_line(struct reader *r, struct sl_str line)
{
    const struct sl_flow_word *first = &r->line.words[0];
    int err = sl_flow_line_read(&r->line, line);

    if (err || r->line.count == 0)
        return err;
    if (sl_flow_word_is(first, "flow"))
        return read_flow(r);
    if (sl_flow_word_is(first, "policy"))
        return read_policy(r);
    if (sl_flow_word_is(first, "at"))
        return read_at(r);
    for (size_t i = 0; i < SL_LEN(forms); i++)
        if (sl_flow_word_is(first, forms[i].word))
            return read_act(r, &forms[i]);
    for (size_t i = 0; i < SL_LEN(long_forms); i++)
        if (sl_flow_word_is(first, long_forms[i].word))
            return read_act(r, &long_forms[i]);
    if (is_method(first))
        return read_act(r, &request);
    return refuse_beginning(r);
}

static int read_lines(struct reader *r, struct sl_str text,
                      struct sl_str *ret_line)
{
    int err = 0;

    while (text.len > 0 && !err) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;

        *ret_line = (struct sl_str){text.at, len};
        r->number++;
        r->line.diag->line = r->number;
        err = read_line(r, *ret_line);
        text = sl_str_from(text, len + (end != NULL));
    }
    return err;
}

/* A flow without a check must not pass. */
static int check_flows(struct reader *r, struct sl_str *ret_line)
{
    r->line.diag->line = r->line.diag->column = 0;
    *ret_line = (struct sl_str){NULL, 0};
    if (r->file->count == 0)
        return sl_diag_error(
            r->line.diag, SLUICE_ECONF,
            "the file has no flow; begin with flow \"description\"");
    for (struct sl_flow *flow = r->file->flows; flow; flow = flow->next) {
        r->line.diag->line = flow->line;
        if (flow->act_count == 0)
            return sl_diag_error(r->line.diag, SLUICE_ECONF,
                                 "the flow \"%s\" is empty",
                                 sl_quote(sl_str_c(flow->name)).text);
    }
    return 0;
}

int sl_flow_read(const char *name, struct sl_str text,
                 const struct sl_alloc *alloc, struct sl_flow_file *ret,
                 struct sl_diag *diag, struct sl_str *ret_line)
{
    struct sl_flow_file file = {.name = name};
    struct reader r = {
        .file = &file, .line.arena = &file.arena, .line.diag = diag};
    bool marked = text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0;
    int err;

    *diag = (struct sl_diag){.file = name};
    *ret_line = (struct sl_str){NULL, 0};
    if (text.len > SL_FLOW_BYTES)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the file is larger than 1 MB; split it");
    sl_arena_init(&file.arena, ARENA_BYTES, alloc);
    err = read_lines(&r, sl_str_from(text, marked ? 3 : 0), ret_line);
    if (!err)
        err = check_flows(&r, ret_line);
    if (err) {
        sl_arena_done(&file.arena);
        return err;
    }
    *ret = file;
    return 0;
}

void sl_flow_file_done(struct sl_flow_file *file)
{
    sl_arena_done(&file->arena);
}
