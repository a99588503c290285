/* foreign.c -- tokens of another maker are believed, and no others.
 *
 * The file has a line for each: NAME <tab> KEYS <tab> TOKEN. Each token is then
 * changed in every place, and each is held against the keys of the others.
 * Those that are called "not ..." are wrong as they come.
 */
#include "made.h"

#define LINES 32
#define NOW   (INT64_C(1800000000) * SL_S)

struct line {
    char *name, *keys, *token;
    struct sl_keyset *set;
};

static struct line lines[LINES];
static unsigned line_count;

static const struct sl_str audience = {"web", 3};
static const struct sl_token_rules rules = {
    .issuer = {"https://id.example/", 19},
    .audiences = &audience,
    .audience_count = 1,
};

static enum sl_token_error verify(const struct line *line, const char *text,
                                  size_t len)
{
    return made_verify(line->set, &rules, (struct sl_str){text, len}, NOW);
}

static bool read_line(FILE *file, struct line *ret)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t len = getline(&text, &size, file);
    char *tab;

    if (len < 0) {
        free(text);
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    ret->name = text;
    tab = strchr(text, '\t');
    ret->keys = tab + 1;
    *tab = '\0';
    tab = strchr(ret->keys, '\t');
    ret->token = tab + 1;
    *tab = '\0';
    ret->set = made_read(ret->keys, strstr(ret->keys, "oct") ? SL_ALG_HMAC : 0);
    return true;
}

static void test_believed(const struct line *line)
{
    CHECK_FAULT(verify(line, line->token, strlen(line->token)), SL_TOKEN_GOOD);
    CHECK_STR(made_claim("sub"), "ann");
    CHECK_STR(made_claim("org.id"), "42");
    CHECK_STR(made_claim("roles"), "member admin");
    CHECK_STR(made_claim("name"), "\xc3\x86nn \xe6\xbc\xa2");
    CHECK_EQ(made_token.expires, INT64_C(2000000000) * SL_S);
}

/* Another letter in every place; every letter left out, or twice. */
static void test_changed(const struct line *line)
{
    static const char others[] = {'=', ' ', '.', '+', '\0', '\x80'};
    static char text[MADE_BYTES];
    size_t len = strlen(line->token);
    unsigned believed = 0;

    for (size_t i = 0; i < len; i++) {
        char *at = &text[i];

        memcpy(text, line->token, len);
        *at = *at == 'A' ? 'B' : 'A';
        believed += verify(line, text, len) == SL_TOKEN_GOOD;
        *at = (char)(line->token[i] ^ 1);
        believed += verify(line, text, len) == SL_TOKEN_GOOD;
        for (size_t j = 0; j < sizeof(others); j++) {
            *at = others[j];
            believed += others[j] != line->token[i] &&
                        verify(line, text, len) == SL_TOKEN_GOOD;
        }
        memcpy(at, line->token + i + 1, len - i - 1);
        believed += verify(line, text, len - 1) == SL_TOKEN_GOOD;
        memcpy(at, line->token + i, 1);
        memcpy(at + 1, line->token + i, len - i);
        believed += verify(line, text, len + 1) == SL_TOKEN_GOOD;
    }
    CHECK_EQ(believed, 0);
}

static void test_others(const struct line *line)
{
    for (unsigned i = 0; i < line_count; i++)
        if (strcmp(lines[i].keys, line->keys) != 0 &&
            strncmp(lines[i].name, "RS", 2) != 0) /* these share a key */
            CHECK(verify(&lines[i], line->token, strlen(line->token)) !=
                  SL_TOKEN_GOOD);
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "re") : NULL;

    if (!file)
        return 1;
    while (line_count < LINES && read_line(file, &lines[line_count]))
        line_count++;
    fclose(file);
    CASE("15 tokens were made, and 12 that are wrong");
    CHECK_EQ(line_count, 15 + 12);
    for (unsigned i = 0; i < line_count; i++) {
        CASE(lines[i].name);
        if (strncmp(lines[i].name, "not ", 4) == 0) {
            CHECK(verify(&lines[i], lines[i].token, strlen(lines[i].token)) !=
                  SL_TOKEN_GOOD);
            continue;
        }
        test_believed(&lines[i]);
        test_changed(&lines[i]);
        test_others(&lines[i]);
    }
    CHECK_DONE();
    for (unsigned i = 0; i < line_count; i++) {
        sl_keyset_unref(lines[i].set);
        free(lines[i].name);
    }
    made_done();
    return check_state.failed != 0;
}
