/* yaml_errors.c -- why libfyaml stopped, in our own words.
 *
 * libfyaml's messages speak of flow sequences and plain scalars. Those that
 * people meet are put into words that say what to do; the rest is passed on.
 * Where brackets are open, the place that helps is the one where they were
 * opened, and the reader's stack knows it.
 */
#include <string.h>

#include "base/parse.h"
#include "policy/yaml.h"

/* What a message of libfyaml is about. */
typedef void sl_cli_error_f(struct sl_reader *r, size_t at,
                            const char *message);

static char byte_at(const struct sl_reader *r, size_t at)
{
    return at < r->text.len ? r->text.at[at] : '\0';
}

/* The line that `at` stands in. */
static struct sl_str line_around(const struct sl_reader *r, size_t at)
{
    size_t from = at, to = at;

    while (from > 0 && r->text.at[from - 1] != '\n')
        from--;
    while (to < r->text.len && r->text.at[to] != '\n' && r->text.at[to] != '\r')
        to++;
    return (struct sl_str){r->text.at + from, to - from};
}

/* The innermost [ or { that is open, or NULL. */
static const struct sl_yaml_node *open_bracket(const struct sl_reader *r,
                                               char *ret)
{
    for (unsigned i = r->depth; i > 0; i--) {
        const struct sl_yaml_node *node = r->stack[i - 1].node;
        size_t at = r->lines[node->place.line - 1] + node->place.column - 1;

        *ret = byte_at(r, at);
        if (*ret == '[' || *ret == '{')
            return node;
    }
    return NULL;
}

static bool is_end(const struct sl_reader *r, size_t at)
{
    for (; at < r->text.len; at++)
        if (!strchr(" \t\r\n", r->text.at[at]))
            return false;
    return true;
}

/* Trouble between brackets, for example because one is missing. */
static bool complain_bracket(struct sl_reader *r, size_t at)
{
    char open, close;
    const struct sl_yaml_node *node = open_bracket(r, &open);

    if (!node)
        return false;
    close = open == '[' ? ']' : '}';
    if (is_end(r, at))
        sl_report_error(r->report, node->place,
                        "This \"%c\" is never closed. Add a \"%c\"", open,
                        close);
    else
        sl_report_error(r->report, sl_reader_pos(r, at),
                        "Missing comma or \"%c\" before this. The \"%c\" is "
                        "on line %u, column %u",
                        close, open, node->place.line, node->place.column);
    return true;
}

static void complain_flow(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    if (!complain_bracket(r, at))
        sl_report_error(r->report, sl_reader_pos(r, at),
                        "Expected a value here. If this is text, put it in "
                        "quotes");
}

static void complain_quote(struct sl_reader *r, size_t at, const char *message)
{
    char quote = strstr(message, "double") ? '"' : '\'';

    if (byte_at(r, at) != quote && at > 0 && byte_at(r, at - 1) == quote)
        at--;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "The string that begins here has no closing %c. Close it, "
                    "and indent its other lines",
                    quote);
}

static void complain_tab(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A tab cannot indent a line in YAML. Use spaces");
}

static void complain_indent(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "Wrong indentation. Begin this line in the same column as "
                    "the keys or items beside it");
}

/* A text that goes on in the next line, which looks like a key. */
static void complain_key(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "Missing colon and space here, or a line below is "
                    "indented too far");
}

/* "message: You have: x" */
static void complain_colon(struct sl_reader *r, size_t at, const char *message)
{
    struct sl_str line = sl_str_trim(line_around(r, at));
    struct sl_diag *diag = sl_report_error(
        r->report, sl_reader_pos(r, at),
        "Second colon and space in one line. Put a text with \": \" in "
        "quotes, or begin a map on its own line");
    const char *colon = memmem(line.at, line.len, ": ", 2);
    size_t key = colon ? (size_t)(colon - line.at) : 0;

    (void)message;
    if (colon && line.len < 100 && !memchr(line.at, '"', line.len) &&
        !memchr(line.at, '#', line.len))
        sl_diag_hint(diag, "%.*s: \"%.*s\"", sl_str_int(key), line.at,
                     SL_STR_ARG(sl_str_trim(sl_str_from(line, key + 2))));
}

static void complain_start(struct sl_reader *r, size_t at, const char *message)
{
    if (strstr(message, "blank or zero")) {
        complain_tab(r, at, message);
        return;
    }
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A text cannot begin with \"%c\". Put it in quotes",
                    byte_at(r, at) ? byte_at(r, at) : ' ');
}

static void complain_extra(struct sl_reader *r, size_t at, const char *message)
{
    if (strstr(message, "comma"))
        sl_report_error(r->report, sl_reader_pos(r, at),
                        "There is nothing between these commas. Remove one");
    else
        sl_report_error(r->report, sl_reader_pos(r, at),
                        "This \"%c\" closes nothing. Remove it, or put the "
                        "text in quotes",
                        byte_at(r, at) ? byte_at(r, at) : ']');
}

static void complain_trail(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "Unexpected text after the value. Put all of it in one "
                    "pair of quotes, or remove it");
}

static void complain_escape(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "Unknown escape after the backslash. Write \"\\\\\" for a "
                    "backslash, or use single quotes");
}

static void complain_dash(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A list with dashes must begin on its own line. On one "
                    "line, write [a, b]");
}

static void complain_item(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "The items of the list above begin with \"- \". This line "
                    "does not");
}

static void complain_missing(struct sl_reader *r, size_t at,
                             const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "Expected a key with a colon and a space here, as in "
                    "\"kind: quota\"");
}

static void complain_comment(struct sl_reader *r, size_t at,
                             const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A comment needs a space before its \"#\". Put a text "
                    "with \"#\" in quotes");
}

static void complain_alias(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A policy has no anchors, aliases or tags. Put a text "
                    "that begins with \"&\", \"*\" or \"!\" in quotes");
}

static void complain_block(struct sl_reader *r, size_t at, const char *message)
{
    (void)message;
    sl_report_error(r->report, sl_reader_pos(r, at),
                    "A text after \"|\" or \">\" must begin on the next line, "
                    "indented more than its key");
}

static void complain_other(struct sl_reader *r, size_t at, const char *message)
{
    sl_report_error(r->report, sl_reader_pos(r, at), "Invalid YAML: %s",
                    message);
}

/* The first row whose words are in the message is it. */
static const struct {
    const char *words;
    sl_cli_error_f *say;
} complaints[] = {
    {"comment",                 complain_comment},
    {"mismatched",              complain_flow   },
    {"closing quote",           complain_quote  },
    {"quoted scalar used as",   complain_key    },
    {"escape",                  complain_escape },
    {"trailing content",        complain_trail  },
    {"double-quoted",           complain_quote  },
    {"single-quoted",           complain_quote  },
    {"tab",                     complain_tab    },
    {"extra",                   complain_extra  },
    {"missing comma",           complain_flow   },
    {"without a closing",       complain_flow   },
    {"expected node content",   complain_flow   },
    {"flow mode",               complain_flow   },
    {"nested block mapping",    complain_colon  },
    {"block scalar",            complain_block  },
    {"multiline",               complain_key    },
    {"cannot start with",       complain_start  },
    {"value after mapping",     complain_trail  },
    {"block sequence on the",   complain_dash   },
    {"sequence entries",        complain_dash   },
    {"end of block sequence",   complain_item   },
    {"expected '-'",            complain_item   },
    {"expected key",            complain_missing},
    {"could not find expected", complain_missing},
    {"missing mapping value",   complain_missing},
    {"alias",                   complain_alias  },
    {"anchor",                  complain_alias  },
    {"tag",                     complain_alias  },
    {"indent",                  complain_indent },
    {"indend",                  complain_indent },
    {"",                        complain_other  },
};

void sl_reader_error(struct sl_reader *r)
{
    void *walk = NULL;
    struct fy_diag_error *error = fy_diag_errors_iterate(r->diag, &walk);
    const char *message = error && error->msg ? error->msg : "";
    size_t at = r->seen, i = 0;

    if (error && error->line > 0 && error->column > 0)
        at =
            sl_reader_offset(r, (unsigned)error->line, (unsigned)error->column);
    while (!strstr(message, complaints[i].words))
        i++;
    complaints[i].say(r, at, message);
}
