/* ngx_http_sluice_filter.c -- headers of the answer, and variables. */
#include "ngx_http_sluice.h"

static ngx_http_output_header_filter_pt next_filter;

/* ---- headers ---- */

static ngx_table_elt_t *find_header(ngx_http_request_t *r,
                                    const ngx_str_t *name)
{
    for (ngx_list_part_t *part = &r->headers_out.headers.part; part;
         part = part->next) {
        ngx_table_elt_t *all = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++)
            if (all[i].hash != 0 && all[i].key.len == name->len &&
                ngx_strncasecmp(all[i].key.data, name->data, name->len) == 0)
                return &all[i];
    }
    return NULL;
}

/* "theirs, ours" */
static ngx_int_t append(ngx_http_request_t *r, ngx_table_elt_t *theirs,
                        const ngx_str_t *ours)
{
    size_t len = theirs->value.len + 2 + ours->len;
    u_char *text = ngx_pnalloc(r->pool, len);

    if (!text)
        return NGX_ERROR;
    ngx_sprintf(text, "%V, %V", &theirs->value, ours);
    theirs->value.data = text;
    theirs->value.len = len;
    return NGX_OK;
}

/* A header that the application sends, too, is replaced; the list of exposed
 * headers gets ours. */
static ngx_int_t add_header(ngx_http_request_t *r, const ngx_table_elt_t *ours)
{
    static const ngx_str_t list = ngx_string("Access-Control-Expose-Headers");
    ngx_table_elt_t *h = find_header(r, &ours->key);

    if (h && ours->key.len == list.len &&
        ngx_strncasecmp(ours->key.data, list.data, list.len) == 0)
        return h->value.len > 0 ? append(r, h, &ours->value)
                                : (h->value = ours->value, NGX_OK);
    for (; h; h = find_header(r, &ours->key))
        h->hash = 0;
    h = ngx_list_push(&r->headers_out.headers);
    if (!h)
        return NGX_ERROR;
    *h = *ours;
    return NGX_OK;
}

/* Once. A later filter that replaces the response by an error page
 * (filter_finalize) has cleared the headers: then once more. */
static ngx_int_t header_filter(ngx_http_request_t *r)
{
    ngx_http_sluice_ctx_t *ctx = r == r->main ? ngx_http_sluice_ctx(r) : NULL;

    if (!ctx || ctx->conf->mode != SLUICE_MODE_ON ||
        (ctx->headers_added && !r->filter_finalize))
        return next_filter(r);
    ctx->headers_added = 1;
    for (ngx_uint_t i = 0; i < ctx->header_count; i++)
        if (add_header(r, &ctx->headers[i]) != NGX_OK)
            return NGX_ERROR;
    return next_filter(r);
}

static ngx_int_t install_filter(ngx_conf_t *cf)
{
    (void)cf;
    next_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    return NGX_OK;
}

static ngx_http_module_t context = {
    NULL,           /* preconfiguration */
    install_filter, /* postconfiguration */
    NULL,           NULL, NULL, NULL, NULL, NULL,
};

ngx_module_t ngx_http_sluice_filter_module = {
    NGX_MODULE_V1,         &context, NULL, /* directives */
    NGX_HTTP_MODULE,       NULL,     NULL, NULL, NULL, NULL, NULL, NULL,
    NGX_MODULE_V1_PADDING,
};

/* ---- variables ---- */

enum { STATUS, LIMIT, REMAINING, RETRY_AFTER, PLAN, REQUEST_ID };

static void set_text(ngx_http_variable_value_t *v, const ngx_str_t *text)
{
    v->data = text->data;
    v->len = (unsigned)text->len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = text->len == 0;
}

static ngx_int_t set_number(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                            ngx_uint_t is_known, uint64_t number)
{
    ngx_str_t text = {0, NULL};

    if (is_known) {
        text.data = ngx_pnalloc(r->pool, NGX_INT64_LEN);
        if (!text.data)
            return NGX_ERROR;
        text.len = (size_t)(ngx_sprintf(text.data, "%uL", number) - text.data);
    }
    set_text(v, &text);
    return NGX_OK;
}

static ngx_int_t get_variable(ngx_http_request_t *r,
                              ngx_http_variable_value_t *v, uintptr_t which)
{
    static const ngx_str_t statuses[] = {
        [SLUICE_NONE] = ngx_null_string,
        [SLUICE_PASSED] = ngx_string("PASSED"),
        [SLUICE_DELAYED] = ngx_string("DELAYED"),
        [SLUICE_REJECTED] = ngx_string("REJECTED"),
        [SLUICE_DELAYED_DRY_RUN] = ngx_string("DELAYED_DRY_RUN"),
        [SLUICE_REJECTED_DRY_RUN] = ngx_string("REJECTED_DRY_RUN"),
        [SLUICE_DEGRADED] = ngx_string("DEGRADED"),
    };
    const ngx_http_sluice_ctx_t *ctx = ngx_http_sluice_ctx(r);

    if (!ctx) {
        v->not_found = 1;
        return NGX_OK;
    }
    switch (which) {
    case LIMIT:
        return set_number(r, v, ctx->has_numbers, ctx->limit);
    case REMAINING:
        return set_number(r, v, ctx->has_numbers, ctx->remaining);
    case RETRY_AFTER:
        return set_number(r, v, ctx->retry_after >= 0,
                          (uint64_t)ctx->retry_after);
    case PLAN:
        set_text(v, &ctx->plan);
        break;
    case REQUEST_ID:
        set_text(v, &ctx->request_id);
        break;
    default:
        set_text(v, &statuses[ctx->status]);
    }
    return NGX_OK;
}

ngx_int_t ngx_http_sluice_add_variables(ngx_conf_t *cf)
{
    static ngx_http_variable_t all[] = {
        {ngx_string("sluice_status"),      NULL, get_variable, STATUS,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
        {ngx_string("sluice_limit"),       NULL, get_variable, LIMIT,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
        {ngx_string("sluice_remaining"),   NULL, get_variable, REMAINING,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
        {ngx_string("sluice_retry_after"), NULL, get_variable, RETRY_AFTER,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
        {ngx_string("sluice_plan"),        NULL, get_variable, PLAN,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
        {ngx_string("sluice_request_id"),  NULL, get_variable, REQUEST_ID,
         NGX_HTTP_VAR_NOCACHEABLE, 0},
    };

    for (ngx_uint_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ngx_http_variable_t *v =
            ngx_http_add_variable(cf, &all[i].name, all[i].flags);

        if (!v)
            return NGX_ERROR;
        v->get_handler = all[i].get_handler;
        v->data = all[i].data;
    }
    return NGX_OK;
}
