/* completion.c -- `sluice completion`: scripts that complete the command line.
 *
 * The scripts are generated from the table of commands.
 */
#include <string.h>

#include "cli/cli.h"

/* Print "a|b|c" with blanks instead of bars. */
static void put_words(FILE *out, const char *words)
{
    for (; words && *words; words++)
        fputc(*words == '|' ? ' ' : *words, out);
}

static bool has_files(const struct sl_command *e)
{
    return e->words && strcmp(e->words, "file") == 0;
}

/* Print the choices of a value between `before` and `after`, or `other` if it
 * has none. Prints nothing without a value. */
static void put_value(FILE *out, const struct sl_flag *flag, const char *before,
                      const char *after, const char *other)
{
    if (flag->value && strchr(flag->value, '|')) {
        fputs(before, out);
        put_words(out, flag->value);
        fputs(after, out);
    } else if (flag->value) {
        fputs(other, out);
    }
}

/* ---- bash ---- */

/* The words after an action. */
static void bash_actions(FILE *out, const struct sl_command *e)
{
    for (const char *const *a = e->actions; a && a[0]; a += 2) {
        fprintf(out,
                "        if ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == %s "
                "]]; then\n"
                "            words=\"",
                a[0]);
        put_words(out, a[1]);
        fputs("\"\n        fi\n", out);
    }
}

static void bash_command(FILE *out, const struct sl_command *e)
{
    struct sl_flag flag;

    fprintf(out, "    %s)\n        words=\"", e->name);
    if (!has_files(e))
        put_words(out, e->words);
    for (size_t i = 0; sl_command_flag(e, i, &flag); i++) {
        fprintf(out, " --%s", flag.name);
        if (flag.letter == 'o' || flag.letter == 'h')
            fprintf(out, " -%c", flag.letter);
    }
    fprintf(out, "\"\n        formats=\"");
    put_words(out, e->formats);
    fprintf(out, "\"\n        files=%d\n", has_files(e));
    bash_actions(out, e);
    fputs("        ;;\n", out);
}

static void put_bash(FILE *out)
{
    fputs("# bash completion for sluice; for this shell:\n"
          "#   source <(sluice completion bash)\n"
          "_sluice() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
          "    local before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local words= formats= files=0\n"
          "\n"
          "    COMPREPLY=()\n"
          "    case ${COMP_WORDS[1]} in\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        bash_command(out, sl_commands[i]);
    fputs("    esac\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        words=\"",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        fprintf(out, "%s ", sl_commands[i]->name);
    fputs("help --help --version\"\n"
          "        files=0\n"
          "    elif [[ $before == -o || $before == --output ]]; then\n"
          "        words=$formats\n"
          "        files=0\n"
          "    elif [[ $cur == -* && $cur != - ]]; then\n"
          "        files=0\n"
          "    fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "    if ((files)); then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY \\\n"
          "            < <(compgen -f -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "complete -F _sluice sluice\n",
          out);
}

/* ---- zsh ---- */

/* Escape for single quotes and brackets. */
static void put_quoted(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (strchr("[]:", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void zsh_actions(FILE *out, const struct sl_command *e)
{
    for (const char *const *a = e->actions; a && a[0]; a += 2) {
        fprintf(out,
                "        if ((CURRENT == 3)) && [[ ${words[2]} == %s ]]; then\n"
                "            compadd ",
                a[0]);
        put_words(out, a[1]);
        fputs("\n            return\n        fi\n", out);
    }
}

static void zsh_command(FILE *out, const struct sl_command *e)
{
    struct sl_flag flag;

    fprintf(out, "    %s)\n", e->name);
    zsh_actions(out, e);
    fputs("        _arguments \\\n", out);
    for (size_t i = 0; sl_command_flag(e, i, &flag); i++) {
        if (flag.letter)
            fprintf(out, "        {-%c,--%s}'[", flag.letter, flag.name);
        else
            fprintf(out, "        '--%s[", flag.name);
        put_quoted(out, flag.summary);
        fputc(']', out);
        put_value(out, &flag, ":value:(", ")", ":value: ");
        fputs("' \\\n", out);
    }
    if (!has_files(e)) {
        fputs("        '1:what:(", out);
        put_words(out, e->words);
        fputs(")'", out);
    }
    fputs(has_files(e) ? "        '*:file:_files'\n" : " '*:file:_files'\n",
          out);
    fputs("        ;;\n", out);
}

static void put_zsh(FILE *out)
{
    fputs("#compdef sluice\n"
          "# zsh completion for sluice; put it on your fpath as _sluice:\n"
          "#   sluice completion zsh > \"${fpath[1]}/_sluice\"\n"
          "_sluice() {\n"
          "    local -a commands=(\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++) {
        fprintf(out, "        '%s:", sl_commands[i]->name);
        put_quoted(out, sl_commands[i]->summary);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=${words[2]}\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        zsh_command(out, sl_commands[i]);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _sluice ]]; then\n"
          "    _sluice \"$@\"\n"
          "else\n"
          "    compdef _sluice sluice\n"
          "fi\n",
          out);
}

/* ---- fish ---- */

static void fish_command(FILE *out, const struct sl_command *e)
{
    struct sl_flag flag;

    fprintf(out, "complete -c sluice -n __fish_use_subcommand -fa %s -d '%s'\n",
            e->name, e->summary);
    if (!has_files(e) && e->words) {
        fprintf(out,
                "complete -c sluice -n '__fish_seen_subcommand_from %s' -a '",
                e->name);
        put_words(out, e->words);
        fputs("'\n", out);
    }
    for (const char *const *a = e->actions; a && a[0]; a += 2) {
        fprintf(out,
                "complete -c sluice -n '__fish_seen_subcommand_from %s; and "
                "__fish_seen_subcommand_from %s' -fa '",
                e->name, a[0]);
        put_words(out, a[1]);
        fputs("'\n", out);
    }
    for (size_t i = 0; sl_command_flag(e, i, &flag); i++) {
        fprintf(out,
                "complete -c sluice -n '__fish_seen_subcommand_from %s' -l %s",
                e->name, flag.name);
        if (flag.letter)
            fprintf(out, " -s %c", flag.letter);
        put_value(out, &flag, " -xa '", "'", " -x");
        fprintf(out, " -d '%s'\n", flag.summary);
    }
}

static void put_fish(FILE *out)
{
    fputs("# fish completion for sluice; for this shell:\n"
          "#   sluice completion fish | source\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        fish_command(out, sl_commands[i]);
}

static int run(struct sl_cli_args *args)
{
    const char *shell = args->words[0];

    if (strcmp(shell, "bash") == 0)
        put_bash(args->cli->out);
    else if (strcmp(shell, "zsh") == 0)
        put_zsh(args->cli->out);
    else if (strcmp(shell, "fish") == 0)
        put_fish(args->cli->out);
    else
        return sl_cli_misuse(
            args, "no completion script for \"%s\"; write bash, zsh or fish",
            shell);
    return SL_EXIT_OK;
}

const struct sl_command sl_command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "Print a completion script for a shell",
    .help =
        "  source <(sluice completion bash)\n"
        "  sluice completion zsh > \"${fpath[1]}/_sluice\"\n"
        "  sluice completion fish > ~/.config/fish/completions/sluice.fish\n",
    .words = "bash|zsh|fish",
    .least = 1,
    .most = 1,
    .run = run,
};
