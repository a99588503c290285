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
    struct sl_diag *diag;
    struct sl_words words; /* of the current line */
    const char *policy;    /* the default for flows without a policy */
    unsigned line;
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
    {"settle",  SL_FLOW_ACT_SETTLE,  1, true,  "settle NAME cost=N"           },
    {"release", SL_FLOW_ACT_RELEASE, 1, true,  "release NAME"                 },
    {"extend",  SL_FLOW_ACT_EXTEND,  1, true,  "extend NAME hold=TIME"        },
    {"subject", SL_FLOW_ACT_SUBJECT, 2, true,  "subject user|org ID plan=NAME"},
    {"feature", SL_FLOW_ACT_FEATURE, 2, false, "feature NAME on|off"          },
    {"backlog", SL_FLOW_ACT_BACKLOG, 2, false, "backlog NAME DEPTH"           },
    {"store",   SL_FLOW_ACT_STORE,   1, false, "store fails|slow|heals"       },
    {"reload",  SL_FLOW_ACT_RELOAD,  1, false, "reload PATH"                  },
};

static const struct form request = {"", SL_FLOW_ACT_REQUEST, 1, true,
                                    "METHOD PATH"};

/* The first words of a line, for suggestions. */
static const char *const beginnings[] = {
    "flow",    "policy",  "at",      "job",     "take",   "usage",  "settle",
    "extend",  "release", "subject", "feature", "store",  "reload", "GET",
    "backlog", "POST",    "PUT",     "PATCH",   "DELETE", "HEAD",   "OPTIONS",
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

static struct sl_diag *at_word(struct reader *r, size_t index)
{
    return sl_diag_at(r->diag, r->words.at[index].column);
}

/* The column after the last word. */
static struct sl_diag *at_end(struct reader *r)
{
    const struct sl_flow_word *last = &r->words.at[r->words.count - 1];

    return sl_diag_at(r->diag, last->column + (unsigned)last->len);
}

/* A keyword and one value. */
static int one_thing(struct reader *r, const char *like)
{
    if (r->words.count < 2)
        return sl_diag_error(at_end(r), SLUICE_ECONF,
                             "missing argument; write %s", like);
    if (r->words.count > 2)
        return sl_diag_error(
            at_word(r, 2), SLUICE_ECONF,
            "unexpected \"%s\"; write %s, and quote values that contain spaces",
            sl_quote(sl_str_c(r->words.at[2].text)).text, like);
    return 0;
}

static int read_flow(struct reader *r)
{
    struct sl_flow *flow;
    int err = one_thing(r, "flow \"description\"");

    if (err)
        return err;
    flow = sl_arena_take(&r->file->arena, sizeof(*flow));
    if (!flow)
        return SLUICE_ENOMEM;
    *flow = (struct sl_flow){
        .name = r->words.at[1].text, .line = r->line, .policy = r->policy};
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
        return sl_diag_error(
            at_word(r, 0), SLUICE_ECONF,
            "the policy line must come before the first request; "
            "use reload to change the policy later");
    if (flow ? flow->policy != r->policy : r->policy != NULL)
        return sl_diag_error(at_word(r, 0), SLUICE_ECONF,
                             "the flow already has a policy");
    path = sl_flow_path(r->file->name, r->words.at[1].text, &r->file->arena);
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
        return sl_diag_error(at_word(r, 0), SLUICE_ECONF,
                             "this line is outside of a flow; write flow "
                             "\"description\" before it");
    if (!flow->policy)
        return sl_diag_error(
            at_word(r, 0), SLUICE_ECONF,
            "the flow has no policy; write policy PATH before its "
            "first request");
    act = sl_arena_take(&r->file->arena, sizeof(*act));
    if (!act)
        return SLUICE_ENOMEM;
    *act = (struct sl_flow_act){.kind = kind, .line = r->line};
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
    return sl_moment_read(r->words.at[1].text, &r->words.at[1], &act->when,
                          r->diag);
}

/* Read the expectations after the arrow, if any. The words then end before the
 * arrow. */
static int read_arrow(struct reader *r, struct sl_flow_act *act)
{
    int err;

    for (size_t i = 0; i < r->words.count; i++) {
        if (!sl_flow_word_is(&r->words.at[i], "->"))
            continue;
        if (i + 1 == r->words.count)
            return sl_diag_error(
                at_word(r, i), SLUICE_ECONF,
                "no expectation after the arrow; write one, or "
                "remove the arrow");
        err = sl_expects_read(&r->words, i + 1, &r->file->arena, act, r->diag);
        r->words.count = i;
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
    return word->equals != SL_NO_EQUALS;
}

/* Read the names of an act, from word `from` on. */
static int read_names(struct reader *r, const struct form *form, size_t from,
                      struct sl_flow_act *act)
{
    size_t behind = from + form->names;

    for (size_t i = from; i < behind; i++) {
        if (i >= r->words.count)
            return sl_diag_error(at_end(r), SLUICE_ECONF,
                                 "missing argument; write %s", form->usage);
        if (is_no_name(form, &r->words.at[i]))
            return sl_diag_error(
                at_word(r, i), SLUICE_ECONF,
                "found \"%s\" where %s is expected; quote it if "
                "that is intended",
                sl_quote(sl_str_c(r->words.at[i].text)).text, form->usage);
        act->names[i - from] = r->words.at[i].text;
    }
    if (!form->inputs && behind < r->words.count)
        return sl_diag_error(
            at_word(r, behind), SLUICE_ECONF, "unexpected \"%s\"; write %s",
            sl_quote(sl_str_c(r->words.at[behind].text)).text, form->usage);
    return 0;
}

static int read_inputs(struct reader *r, size_t from, struct sl_flow_act *act)
{
    struct sl_inputs *in = sl_arena_take(&r->file->arena, sizeof(*in));
    int err = 0;

    if (!in)
        return SLUICE_ENOMEM;
    sl_inputs_init(in);
    act->in = in;
    for (size_t i = from; i < r->words.count && !err; i++)
        err = sl_input_read(&r->words, i, &r->file->arena, in, r->diag);
    if (!err && in->every > 0 && in->times == 1)
        return sl_diag_error(at_word(r, 0), SLUICE_ECONF,
                             "every= needs a number of repeats, like x8");
    return err;
}

static bool is_one_of(const char *text, const char *a, const char *b,
                      const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

/* Acts with fixed words, whose only answer is ok. */
static int check_act(struct reader *r, const struct form *form,
                     const struct sl_flow_act *act)
{
    bool right = true;
    bool answers = act->in != NULL;

    if (act->kind == SL_FLOW_ACT_FEATURE)
        right = is_one_of(act->names[1], "on", "off", "on");
    if (act->kind == SL_FLOW_ACT_BACKLOG)
        right = strspn(act->names[1], "0123456789") == strlen(act->names[1]) &&
                strlen(act->names[1]) < 16;
    if (act->kind == SL_FLOW_ACT_STORE)
        right = is_one_of(act->names[0], "fails", "slow", "heals");
    if (act->kind == SL_FLOW_ACT_SUBJECT)
        right = is_one_of(act->names[0], "user", "org", "user");
    if (!right)
        return sl_diag_error(at_word(r, act->kind == SL_FLOW_ACT_FEATURE ||
                                                act->kind == SL_FLOW_ACT_BACKLOG
                                            ? 2
                                            : 1),
                             SLUICE_ECONF, "write %s", form->usage);
    if (!answers && act->expect_count > 0 &&
        (act->expect_count > 1 || strcmp(act->expects[0].want, "ok") != 0))
        return sl_diag_error(
            at_word(r, 0), SLUICE_ECONF,
            "%s has no answer to check; remove the expectations", form->word);
    return 0;
}

static bool is_state(const struct sl_expect *e)
{
    return !is_one_of(e->want, "allow", "deny", "never") &&
           strcmp(e->want, "ok") != 0;
}

/* Holds have states; requests do not. */
static int check_outcome(struct reader *r, const struct sl_flow_act *act)
{
    bool hold = act->kind == SL_FLOW_ACT_SETTLE ||
                act->kind == SL_FLOW_ACT_RELEASE ||
                act->kind == SL_FLOW_ACT_EXTEND;

    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];
        bool word = e->field == SL_FIELD_OUTCOME;

        if (!hold && word && is_state(e))
            return sl_diag_error(
                at_word(r, 0), SLUICE_ECONF,
                "\"%s\" is a state of a hold; write allow, deny or never",
                e->want);
        if (hold &&
            (word ? !is_state(e) && strcmp(e->want, "ok") != 0
                  : e->field != SL_FIELD_STATUS && e->field != SL_FIELD_BODY))
            return sl_diag_error(
                at_word(r, 0), SLUICE_ECONF,
                "for a hold, expect ok, a state (settled, "
                "released, expired, held, unknown) or body.FIELD");
    }
    if (act->kind == SL_FLOW_ACT_EXTEND && act->in->request.hold_ns == 0)
        return sl_diag_error(at_end(r), SLUICE_ECONF,
                             "missing duration; write extend NAME hold=TIME");
    return 0;
}

static int read_act(struct reader *r, const struct form *form)
{
    bool is_request = form == &request;
    size_t behind = 1 + form->names;
    struct sl_flow_act *act;
    int err = new_act(r, form->kind, &act);

    if (err)
        return err;
    err = read_arrow(r, act);
    if (!err)
        err = read_names(r, form, 1, act);
    if (!err && is_request) {
        act->names[1] = act->names[0];
        act->names[0] = r->words.at[0].text;
    }
    if (!err && form->kind == SL_FLOW_ACT_SUBJECT)
        err = sl_flow_subject_args_read(&r->words, behind, &r->file->arena, act,
                                        r->diag);
    else if (!err && form->inputs)
        err = read_inputs(r, behind, act);
    if (!err)
        err = check_outcome(r, act);
    return err ? err : check_act(r, form, act);
}

/* A method is a word in capitals. */
static bool is_method(const struct sl_flow_word *word)
{
    for (size_t i = 0; i < word->len; i++) {
        char c = word->text[i];

        if (!(c >= 'A' && c <= 'Z') && !(i > 0 && (c == '-' || c == '_')))
            return false;
    }
    return word->len > 0 && !word->quoted;
}

static int refuse_beginning(struct reader *r)
{
    struct sl_str word = sl_str_c(r->words.at[0].text);
    const char *near = sl_str_nearest(word, beginnings, SL_LEN(beginnings));

    sl_diag_error(
        at_word(r, 0), SLUICE_ECONF,
        "no statement begins with \"%s\"; write flow, policy, at, METHOD "
        "PATH, job, take, settle, release, extend, subject, feature, "
        "backlog, store or reload",
        sl_quote(word).text);
    if (near)
        sl_diag_hint(r->diag, "%s", near);
    return SLUICE_ECONF;
}

static int read_line(struct reader *r, struct sl_str line)
{
    const struct sl_flow_word *first = &r->words.at[0];
    int err = sl_words_read(line, &r->file->arena, &r->words, r->diag);

    if (err || r->words.count == 0)
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
        r->line++;
        r->diag->line = r->line;
        err = read_line(r, *ret_line);
        text = sl_str_from(text, len + (end != NULL));
    }
    return err;
}

/* A flow without a check must not pass. */
static int check_flows(struct reader *r, struct sl_str *ret_line)
{
    r->diag->line = r->diag->column = 0;
    *ret_line = (struct sl_str){NULL, 0};
    if (r->file->count == 0)
        return sl_diag_error(
            r->diag, SLUICE_ECONF,
            "the file has no flow; begin with flow \"description\"");
    for (struct sl_flow *flow = r->file->flows; flow; flow = flow->next) {
        r->diag->line = flow->line;
        if (flow->act_count == 0)
            return sl_diag_error(r->diag, SLUICE_ECONF,
                                 "the flow \"%s\" is empty",
                                 sl_quote(sl_str_c(flow->name)).text);
    }
    return 0;
}

/* Some editors write a byte order mark. */
static struct sl_str without_mark(struct sl_str text)
{
    bool marked = text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0;

    return sl_str_from(text, marked ? 3 : 0);
}

int sl_flow_read(const char *name, struct sl_str text,
                 const struct sl_alloc *alloc, struct sl_flow_file *ret,
                 struct sl_diag *diag, struct sl_str *ret_line)
{
    struct sl_flow_file file = {.name = name};
    struct reader r = {.file = &file, .diag = diag};
    int err;

    *diag = (struct sl_diag){.file = name};
    *ret_line = (struct sl_str){NULL, 0};
    if (text.len > SL_FLOW_BYTES)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the file is larger than 1 MB; split it");
    sl_arena_init(&file.arena, ARENA_BYTES, alloc);
    err = read_lines(&r, without_mark(text), ret_line);
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
};

/* The names of fields, for suggestions. */
static const char *const names[] = {
    "by",    "limit",   "remaining", "retry",       "reset",      "wait",
    "quota", "allowed", "denied",    "header.NAME", "body.FIELD",
};

static const char *const outcomes[] = {"allow",    "deny",    "never",
                                       "ok",       "held",    "settled",
                                       "released", "expired", "unknown"};

static const struct field *find_field(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq(name, sl_str_c(fields[i].name)))
            return &fields[i];
    return NULL;
}

static int refuse_field(const struct sl_flow_word *word, struct sl_diag *diag)
{
    struct sl_str name = sl_flow_word_name(word);
    const char *near = sl_str_nearest(name, names, SL_LEN(names));

    sl_diag_error(
        sl_diag_at(diag, word->column), SLUICE_ECONF,
        "unknown expectation \"%.*s\"; valid are by, limit, remaining, retry, "
        "reset, wait, quota, allowed, denied, header.NAME and body.FIELD",
        SL_STR_ARG(name));
    if (near)
        sl_diag_hint(diag, "%s=%s", near, sl_flow_word_value(word));
    return SLUICE_ECONF;
}

static int refuse_outcome(const struct sl_flow_word *word, size_t nth,
                          struct sl_diag *diag)
{
    struct sl_str text = sl_str_c(word->text);
    const char *near = sl_str_nearest(text, outcomes, SL_LEN(outcomes));

    sl_diag_at(diag, word->column);
    if (nth > 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "\"%s\" is not an expectation; write a status or a "
            "word first, then NAME=VALUE",
            word->text);
    sl_diag_error(diag, SLUICE_ECONF,
                  "\"%s\" is not an expectation; write a status, allow, deny, "
                  "never, ok or NAME=VALUE",
                  word->text);
    if (near)
        sl_diag_hint(diag, "%s", near);
    return SLUICE_ECONF;
}

/* "429", or one of the outcomes. */
static int read_outcome(const struct sl_flow_word *word, size_t nth,
                        struct sl_expect *ret, struct sl_diag *diag)
{
    uint64_t status = 0;
    bool number = sl_parse_number(sl_str_c(word->text), &status, NULL) == 0;

    *ret = (struct sl_expect){
        .field = number ? SL_FIELD_STATUS : SL_FIELD_OUTCOME,
        .label = "",
        .want = word->text,
        .number = status,
    };
    if (nth > 0)
        return refuse_outcome(word, nth, diag);
    if (number && (status < 100 || status > 599))
        return sl_diag_error(sl_diag_at(diag, word->column), SLUICE_ECONF,
                             "%s is not an HTTP status; write 100 to 599",
                             word->text);
    if (number)
        return 0;
    for (size_t i = 0; i < SL_LEN(outcomes); i++)
        if (sl_flow_word_is(word, outcomes[i]))
            return 0;
    return refuse_outcome(word, nth, diag);
}

static int read_value(const struct field *field,
                      const struct sl_flow_word *word, struct sl_expect *expect,
                      struct sl_diag *diag)
{
    struct sl_str value = sl_str_c(expect->want);
    int err = 0;

    expect->none = field->may_be_none && sl_str_eq(value, SL_STR("none"));
    if (expect->none)
        return 0;
    if (field->form == NUMBER)
        err = sl_parse_count(value, &expect->number, diag);
    if (field->form == SPAN)
        err = sl_parse_duration(value, &expect->span, diag);
    return err ? sl_flow_value_refused(diag, word, err) : 0;
}

static int read_pair(const struct sl_flow_word *word, struct sl_arena *arena,
                     struct sl_expect *ret, struct sl_diag *diag)
{
    struct sl_str name = sl_flow_word_name(word);
    const struct field *field = find_field(name);
    bool header = sl_flow_word_under(name, "header.");
    bool body = sl_flow_word_under(name, "body.");

    *ret = (struct sl_expect){.want = sl_flow_word_value(word)};
    ret->label = sl_arena_copy(arena, name);
    if (!ret->label)
        return SLUICE_ENOMEM;
    if (header || body) {
        ret->field = header ? SL_FIELD_HEADER : SL_FIELD_BODY;
        ret->name = strchr(ret->label, '.') + 1;
        return 0;
    }
    if (!field)
        return refuse_field(word, diag);
    ret->field = field->field;
    return read_value(field, word, ret, diag);
}

int sl_expects_read(const struct sl_words *words, size_t from,
                    struct sl_arena *arena, struct sl_flow_act *act,
                    struct sl_diag *diag)
{
    size_t count = words->count - from;
    int err = 0;

    act->expects = sl_arena_take(arena, count * sizeof(*act->expects));
    if (!act->expects)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < count && !err; i++) {
        const struct sl_flow_word *word = &words->at[from + i];

        if (word->equals == SL_NO_EQUALS)
            err = read_outcome(word, i, &act->expects[i], diag);
        else
            err = read_pair(word, arena, &act->expects[i], diag);
        if (!err)
            err = sl_flow_word_once(words, from, from + i, diag);
    }
    act->expect_count = count;
    return err;
}
