/* block.c -- `sluice block` and `sluice unblock`. */
#include <string.h>

#include "cli/cli.h"
#include "wire/json.h"

static int print_blocks(struct sl_cli_args *args, json_t *answer)
{
    static const char *const members[] = {"scope", "id",   "until",
                                          "by",    "note", "at"};

    return sl_columns_print(args, json_object_get(answer, "blocks"), members,
                            SL_LEN(members));
}

static int print_block(struct sl_cli_args *args, json_t *answer)
{
    const char *until = sl_member_text(answer, "until");
    const json_t *penalties = json_object_get(answer, "penalties");
    bool both =
        json_array_size(penalties) > 0 && sl_member_true(answer, "operator");

    sl_out_print(args->cli->out, "%s %s is %s%s%s",
                 sl_member_text(answer, "scope"), sl_member_text(answer, "id"),
                 sl_member_true(answer, "blocked") ? "blocked"
                                                   : "no longer blocked",
                 until[0] ? " until " : "", until);
    for (size_t i = 0; i < json_array_size(penalties); i++)
        sl_out_print(args->cli->out, "%s%s",
                     i > 0  ? ", "
                     : both ? " by an operator and by the penalty of "
                            : " by the penalty of ",
                     json_string_value(json_array_get(penalties, i)));
    sl_out_print(args->cli->out, "\n");
    return SL_EXIT_OK;
}

/* Write the path of words SCOPE ID. Returns an exit status after printing why.
 */
static int write_path(struct sl_cli_request *r)
{
    const char *scope = r->args->words[0];

    if (r->args->word_count < 2)
        return sl_cli_misuse(r->args, "missing id; write: sluice %s %s ID",
                             r->args->command->name, scope);
    sl_writer_add(&r->path, SL_STR("/v1/blocks"));
    sl_cli_request_segment(r, scope);
    sl_cli_request_segment(r, r->args->words[1]);
    return 0;
}

/* Write the pairs until= and note= after SCOPE ID. */
static int write_pairs(struct sl_cli_request *r)
{
    const char *values[2] = {NULL, NULL};
    static const char *const names[] = {"until", "note"};

    for (size_t i = 2; i < r->args->word_count; i++) {
        const char *word = r->args->words[i];
        size_t k = 0, len = 0;

        for (; k < SL_LEN(names); k++) {
            len = strlen(names[k]);
            if (strncmp(word, names[k], len) == 0 && word[len] == '=')
                break;
        }
        if (k == SL_LEN(names))
            return sl_cli_misuse(r->args,
                                 "\"%s\" is not a setting of a block; write "
                                 "until=TIME or note=TEXT",
                                 word);
        values[k] = word + len + 1;
    }
    sl_json_open(&r->body, '{');
    sl_json_member_text(&r->body, "until", values[0]);
    sl_json_member_text(&r->body, "note", values[1]);
    sl_json_member_text(&r->body, "by", sl_cli_author(r->args));
    sl_json_close(&r->body, '}');
    return 0;
}

static int ask_block(struct sl_cli_request *r)
{
    const char *scope = r->args->words[0];
    int status;

    if (r->args->word_count == 0) {
        sl_writer_add(&r->path, SL_STR("/v1/blocks"));
        return sl_cli_request_print(r, "GET", "the path is too long",
                                    print_blocks);
    }
    if (strcmp(scope, "user") != 0 && strcmp(scope, "org") != 0 &&
        strcmp(scope, "ip") != 0)
        return sl_cli_misuse(
            r->args,
            "unknown scope \"%s\"; write user ID, org ID or ip ADDRESS", scope);
    status = write_path(r);
    if (!status)
        status = write_pairs(r);
    return status ? status
                  : sl_cli_request_print(r, "POST",
                                         "the id or the note is too long",
                                         print_block);
}

static int ask_unblock(struct sl_cli_request *r)
{
    const char *note = sl_cli_cut_note(r->args);
    int status = sl_cli_request_sign(r, sl_cli_author(r->args), note);

    if (!status && r->args->word_count > 2)
        status = sl_cli_misuse(r->args,
                               "unexpected \"%s\"; write: sluice "
                               "unblock SCOPE ID [note=TEXT]",
                               r->args->words[2]);
    if (!status)
        status = write_path(r);
    return status ? status
                  : sl_cli_request_print(r, "DELETE", "the id is too long",
                                         print_block);
}

static const struct sl_flag flags[] = {
    {'\0', "by", "NAME", "author of the change (you)"},
    {'\0', NULL, NULL,   NULL                        },
};

const struct sl_command sl_command_block = {
    .name = "block",
    .usage = "[SCOPE ID [until=TIME] [note=TEXT]]",
    .summary = "Block a user, an organisation or an address; list blocks",
    .help = "No request of a blocked `user ID`, `org ID` or `ip ADDRESS`\n"
            "passes: it gets 403 with the code BLOCKED. ADDRESS may be a\n"
            "network. Without an end the block stays until `sluice unblock`.\n"
            "Without words the blocks are listed.\n"
            "\n"
            "  sluice block user ann until=2h note=\"scraping\"\n"
            "  sluice block org acme note=\"unpaid since May\"\n"
            "  sluice block ip 203.0.113.7 until=1h\n"
            "  sluice block ip 203.0.113.0/24\n"
            "  sluice block\n"
            "\n"
            "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from\n"
            "now (2h, 30d).\n",
    .words = "user|org|ip",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .most = 4,
    .ask = ask_block,
};

const struct sl_command sl_command_unblock = {
    .name = "unblock",
    .usage = "SCOPE ID [note=TEXT]",
    .summary = "End the block of a user, an organisation or an address",
    .help = "Ends what `sluice block` began, and blocks by the `penalty` of\n"
            "a limit per SCOPE: user, org, ip or another scope of the policy.\n"
            "\n"
            "  sluice unblock user ann note=\"it was a test\"\n"
            "  sluice unblock ip 203.0.113.9\n",
    .words = "user|org|ip",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .least = 2,
    .most = 3,
    .ask = ask_unblock,
};
