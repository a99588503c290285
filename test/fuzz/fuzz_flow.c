/* fuzz_flow.c -- flow files.
 *
 *   (1) A file is read, or it is refused with a sentence, a line that is in it
 *       and that line's text.
 *   (2) What was read makes sense: every flow has a name, a policy and an act,
 *       every act what it names, every text ends where it should.
 *   (3) Read once more, it comes out the same.
 */
#include "fuzz.h"

#include "cli/flow/flow.h"

static void must_expect(const struct sl_flow_act *act)
{
    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];

        MUST(e->label && e->want);
        MUST(strlen(e->want) <= SL_FLOW_LINE);
        MUST((e->name != NULL) ==
             (e->field == SL_FIELD_HEADER || e->field == SL_FIELD_BODY));
        MUST(e->span >= 0);
    }
}

static void must_bring(const struct sl_inputs *in)
{
    MUST(in->times >= 1 && in->times <= SL_FLOW_TIMES);
    MUST(in->every >= 0);
    for (size_t i = 0; i < in->request.header_count; i++)
        MUST(in->request.headers[i].name[0] && in->request.headers[i].value);
    for (size_t i = 0; i < in->request.cost_count; i++)
        MUST(in->request.costs[i].limit[0]);
}

static void must_act(const struct sl_flow_act *act)
{
    MUST(act->kind <= SL_FLOW_ACT_DESTINATION);
    MUST(act->when.at >= 0 && act->when.at < SL_TIME_END);
    if (act->kind != SL_FLOW_ACT_AT)
        MUST(act->names[0]);
    if (act->kind == SL_FLOW_ACT_REQUEST)
        MUST(act->names[0][0] && act->names[1]);
    if (act->kind == SL_FLOW_ACT_WEBHOOK ||
        act->kind == SL_FLOW_ACT_DESTINATION)
        MUST(act->names[1]);
    if (act->kind == SL_FLOW_ACT_WEBHOOK || act->kind == SL_FLOW_ACT_DELIVERY)
        MUST(act->in);
    MUST((act->record != NULL) ==
         (act->kind == SL_FLOW_ACT_SUBJECT || act->kind == SL_FLOW_ACT_BLOCK));
    if (act->in)
        must_bring(act->in);
    must_expect(act);
}

static size_t must_make_sense(const struct sl_flow_file *file, size_t lines)
{
    size_t acts = 0, flows = 0;

    for (const struct sl_flow *f = file->flows; f; f = f->next) {
        MUST(f->name && f->policy && f->act_count > 0);
        MUST(f->line >= 1 && f->line <= lines);
        for (const struct sl_flow_act *a = f->acts; a; a = a->next) {
            MUST(a->line > f->line && a->line <= lines);
            must_act(a);
            acts++;
        }
        flows++;
    }
    MUST(flows == file->count && flows > 0);
    return acts;
}

void fuzz_flow(struct sl_str text)
{
    struct sl_str line;
    struct sl_flow_file file, again;
    struct sl_diag diag;
    size_t lines = 1, acts;
    int err =
        sl_flow_read("f/x.flow", text, &sl_alloc_libc, &file, &diag, &line);

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    MUST(err == 0 || err == SLUICE_ECONF);
    if (err) { /* (1) */
        must_explain(&diag, text.len);
        MUST(diag.line <= lines);
        MUST(line.len == 0 ||
             (line.at >= text.at && line.at + line.len <= text.at + text.len));
        return;
    }
    acts = must_make_sense(&file, lines); /* (2) */
    MUST(sl_flow_read("f/x.flow", text, &sl_alloc_libc, &again, &diag, &line) ==
         0); /* (3) */
    MUST(must_make_sense(&again, lines) == acts);
    sl_flow_file_done(&again);
    sl_flow_file_done(&file);
}
