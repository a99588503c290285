/* paths.c -- the paths of the door for applications and proxies. */
#include "server/http/usage.h"

const struct sl_http_path sl_api_paths[] = {
    {"POST", "/v1/check",    sl_http_check,        SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/explain",  sl_http_explain,      SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/holds/",   sl_http_holds,        SL_HTTP_ACCESS_TOKEN },
    {NULL,   "/v1/auth",     sl_http_auth,         SL_HTTP_ACCESS_TOKEN },
    {NULL,   "/v1/auth/",    sl_http_auth,         SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/backlog",  sl_http_backlogs,     SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/backlog/", sl_http_backlog_get,  SL_HTTP_ACCESS_TOKEN },
    {"PUT",  "/v1/backlog/", sl_http_backlog_put,  SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/usage",    sl_http_usage_report, SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/usage/",   sl_http_usage_read,   SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/deny",     sl_http_deny,         SL_HTTP_ACCESS_TOKEN },
    {"POST", "/json",        sl_http_json,         SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/healthcheck", sl_http_healthcheck,  SL_HTTP_ACCESS_PUBLIC},
};

const unsigned sl_api_path_count = SL_LEN(sl_api_paths);
