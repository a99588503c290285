/* openapi_gen.c -- makes the C source of /openapi.json at build time.
 *
 *     openapi_gen openapi.yaml openapi_text.c
 *
 * The description is written in YAML and sent as JSON on one line.
 */
#include <libfyaml.h>
#include <stdio.h>
#include <string.h>

#define PER_LINE 16
#define LONGEST  ((size_t)1 << 20)

static int write_source(FILE *out, const char *json)
{
    fprintf(out, "/* Made by openapi_gen.c. */\n"
                 "#include \"server/http/http_int.h\"\n\n"
                 "static const char text[] = {");
    for (size_t i = 0; json[i]; i++)
        fprintf(out, "%s%d,", i % PER_LINE == 0 ? "\n    " : " ", json[i]);
    fprintf(out, "\n};\n\n"
                 "const struct sl_str sl_openapi = {text, sizeof(text)};\n");
    return ferror(out);
}

int main(int argc, char **argv)
{
    static char json[LONGEST];
    struct fy_document *doc;
    FILE *out;

    if (argc != 3) {
        fprintf(stderr, "usage: openapi_gen YAML C\n");
        return 2;
    }
    doc = fy_document_build_from_file(NULL, argv[1]);
    if (!doc || fy_emit_document_to_buffer(
                    doc, FYECF_MODE_JSON_ONELINE | FYECF_WIDTH_INF, json,
                    sizeof(json)) < 0) {
        fprintf(stderr, "openapi_gen: %s is not YAML, or too long\n", argv[1]);
        return 1;
    }
    fy_document_destroy(doc);
    json[strcspn(json, "\n")] = '\0';
    out = fopen(argv[2], "w");
    if (!out || write_source(out, json) || fclose(out)) {
        fprintf(stderr, "openapi_gen: %s cannot be written\n", argv[2]);
        return 1;
    }
    return 0;
}
