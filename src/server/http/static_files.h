/* static_files.h -- the files of web/, embedded at build time. */
#ifndef SL_SERVER_HTTP_STATIC_FILES_H
#define SL_SERVER_HTTP_STATIC_FILES_H

#include "base/str.h"
#include "server/http/http.h"

struct sl_static_file {
    struct sl_str name; /* below /ui/: "main.js", "vendor/uPlot.min.css" */
    struct sl_str type;
    struct sl_str hash; /* of the contents, in hexadecimal */
    struct sl_str data;
    struct sl_str gzip;
};

/* Sorted by name. Made by static_files_gen.py. */
extern const struct sl_static_file sl_static_files[];
extern const unsigned sl_static_file_count;

/* Handles GET /ui/...: the file behind /ui/, with index.html for a folder.
 * call->arg: also the page of the demo, if the daemon runs it. */
void sl_http_static(struct sl_http_call *call);

/* Handles GET of a folder without its slash: redirects to the path with it. */
void sl_http_add_slash(struct sl_http_call *call);

#endif
