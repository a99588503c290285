/* ngx_http_sluice_module.c -- directives, and the life of workers. */
#include "ngx_http_sluice.h"

/* ---- directives ---- */

/* Is the last pair's name there before? */
static ngx_uint_t is_again(const ngx_array_t *pairs)
{
    const ngx_http_sluice_pair_t *all = pairs->elts;
    const ngx_str_t *name = &all[pairs->nelts - 1].name;

    for (ngx_uint_t i = 0; i + 1 < pairs->nelts; i++)
        if (all[i].name.len == name->len &&
            ngx_memcmp(all[i].name.data, name->data, name->len) == 0)
            return 1;
    return 0;
}

/* A directive of NAME=VALUE words, each name once. With `alone`, a word without
 * a name may be the only one. */
static char *set_pairs(ngx_conf_t *cf, ngx_array_t **ret, ngx_uint_t alone)
{
    ngx_str_t *words = cf->args->elts;

    if (*ret != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    *ret = ngx_array_create(cf->pool, 4, sizeof(ngx_http_sluice_pair_t));
    if (!*ret)
        return NGX_CONF_ERROR;
    for (ngx_uint_t i = 1; i < cf->args->nelts; i++) {
        ngx_http_sluice_pair_t *pair = ngx_array_push(*ret);
        u_char *mark =
            ngx_strlchr(words[i].data, words[i].data + words[i].len, '=');
        ngx_str_t value = words[i];
        ngx_http_compile_complex_value_t compile = {
            .cf = cf, .value = &value, .complex_value = NULL};

        if (!pair)
            return NGX_CONF_ERROR;
        ngx_memzero(pair, sizeof(*pair));
        if (words[i].data[0] != '$' && mark && mark > words[i].data) {
            pair->name.data = words[i].data;
            pair->name.len = (size_t)(mark - words[i].data);
            value.data = mark + 1;
            value.len -= pair->name.len + 1;
        } else if (!alone || mark == words[i].data || cf->args->nelts > 2) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" must be NAME=VALUE", &words[i]);
            return NGX_CONF_ERROR;
        }
        if (is_again(*ret)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V=\" is there twice",
                               &pair->name);
            return NGX_CONF_ERROR;
        }
        compile.complex_value = &pair->value;
        if (ngx_http_compile_complex_value(&compile) != NGX_OK)
            return NGX_CONF_ERROR;
    }
    return NGX_CONF_OK;
}

/* A bad cost without a variable would be ignored with each request. An empty
 * one leaves the cost to the policy, whatever the level above says. */
static char *set_costs(ngx_conf_t *cf, ngx_array_t **ret)
{
    char *err = set_pairs(cf, ret, 1);
    const ngx_http_sluice_pair_t *all;

    if (err != NGX_CONF_OK)
        return err;
    all = (*ret)->elts;
    for (ngx_uint_t i = 0; i < (*ret)->nelts; i++) {
        const ngx_str_t *text = &all[i].value.value;

        if (all[i].value.lengths || text->len == 0 ||
            ngx_atoof(text->data, text->len) != NGX_ERROR)
            continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" is not a cost; a cost is a whole number",
                           text);
        return NGX_CONF_ERROR;
    }
    return NGX_CONF_OK;
}

static char *set_identity(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    static const char *const names[] = {"user", "org", "plan", "role", "ip"};
    ngx_http_sluice_loc_conf_t *loc = conf;
    char *err = set_pairs(cf, &loc->identity, 0);
    ngx_http_sluice_pair_t *pairs;

    if (err != NGX_CONF_OK)
        return err;
    pairs = loc->identity->elts;
    for (ngx_uint_t i = 0; i < loc->identity->nelts; i++) {
        ngx_uint_t known = 0;

        for (ngx_uint_t n = 0; n < 5; n++)
            known |= pairs[i].name.len == ngx_strlen(names[n]) &&
                     ngx_strncmp(pairs[i].name.data, names[n],
                                 pairs[i].name.len) == 0;
        if (known)
            continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown identity \"%V\"; valid are user, org, "
                           "plan, role and ip",
                           &pairs[i].name);
        return NGX_CONF_ERROR;
    }
    return NGX_CONF_OK;
}

static char *set_cost(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    return set_costs(cf, &((ngx_http_sluice_loc_conf_t *)conf)->cost);
}

static char *set_settle(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    return set_costs(cf, &((ngx_http_sluice_loc_conf_t *)conf)->settle);
}

static ngx_conf_enum_t modes[] = {
    {ngx_string("off"),     SLUICE_MODE_OFF    },
    {ngx_string("on"),      SLUICE_MODE_ON     },
    {ngx_string("dry_run"), SLUICE_MODE_DRY_RUN},
    {ngx_null_string,       0                  }
};

static ngx_conf_enum_t log_levels[] = {
    {ngx_string("info"),   NGX_LOG_INFO  },
    {ngx_string("notice"), NGX_LOG_NOTICE},
    {ngx_string("warn"),   NGX_LOG_WARN  },
    {ngx_string("error"),  NGX_LOG_ERR   },
    {ngx_null_string,      0             }
};

static ngx_conf_num_bounds_t statuses = {ngx_conf_check_num_bounds, 400, 599};

#define ANYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)
#define AT(name) offsetof(ngx_http_sluice_loc_conf_t, name)

/* A directive of any block: its name, how many words it takes, what reads it,
 * and where and with what nginx's own functions do. */
#define DIRECTIVE(name, words, set, at, with)                                  \
    {                                                                          \
        ngx_string(name), ANYWHERE | (words), set, NGX_HTTP_LOC_CONF_OFFSET,   \
            at, with                                                           \
    }

static ngx_command_t commands[] = {
    {ngx_string("sluice_state"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE12,
     ngx_http_sluice_set_state, NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL},
    DIRECTIVE("sluice_policy", NGX_CONF_TAKE1, ngx_http_sluice_set_policy, 0,
              NULL),
    DIRECTIVE("sluice_pass", NGX_CONF_1MORE, ngx_http_sluice_set_pass, 0, NULL),
    DIRECTIVE("sluice", NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(mode),
              modes),
    DIRECTIVE("sluice_identity", NGX_CONF_1MORE, set_identity, 0, NULL),
    DIRECTIVE("sluice_cost", NGX_CONF_1MORE, set_cost, 0, NULL),
    DIRECTIVE("sluice_settle", NGX_CONF_1MORE, set_settle, 0, NULL),
    DIRECTIVE("sluice_status", NGX_CONF_TAKE1, ngx_conf_set_num_slot,
              AT(status), &statuses),
    DIRECTIVE("sluice_log_level", NGX_CONF_TAKE1, ngx_conf_set_enum_slot,
              AT(log_level), log_levels),
    ngx_null_command
};

/* ---- configurations ---- */

static void *create_main_conf(ngx_conf_t *cf)
{
    ngx_http_sluice_main_conf_t *main = ngx_pcalloc(cf->pool, sizeof(*main));

    if (!main ||
        ngx_array_init(&main->policies, cf->pool, 2,
                       sizeof(ngx_http_sluice_policy_t *)) != NGX_OK ||
        ngx_array_init(&main->passes, cf->pool, 2,
                       sizeof(ngx_http_sluice_pass_t *)) != NGX_OK)
        return NULL;
    ngx_queue_init(&main->held);
    return main;
}

static void *create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_sluice_loc_conf_t *loc = ngx_pcalloc(cf->pool, sizeof(*loc));

    if (!loc)
        return NULL;
    loc->mode = NGX_CONF_UNSET_UINT;
    loc->policy = NGX_CONF_UNSET_PTR;
    loc->pass = NGX_CONF_UNSET_PTR;
    loc->identity = NGX_CONF_UNSET_PTR;
    loc->cost = NGX_CONF_UNSET_PTR;
    loc->settle = NGX_CONF_UNSET_PTR;
    loc->status = NGX_CONF_UNSET_UINT;
    loc->log_level = NGX_CONF_UNSET_UINT;
    return loc;
}

/* A cost of a limit that the policy does not have would stop no request. */
static ngx_int_t check_limits(ngx_conf_t *cf, const char *directive,
                              const ngx_http_sluice_policy_t *policy,
                              const ngx_array_t *pairs)
{
    const ngx_http_sluice_pair_t *all = pairs ? pairs->elts : NULL;

    for (ngx_uint_t i = 0; pairs && i < pairs->nelts; i++) {
        struct sl_diag diag = {.sentence = ""};
        struct sl_str name = {(const char *)all[i].name.data, all[i].name.len};

        if (name.len == 0 ||
            sl_embed_check_limit(policy->policy, name, &diag) == 0)
            continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s \"%V=...\": %s: %V",
                           directive, &all[i].name, diag.sentence,
                           &policy->path);
        return NGX_ERROR;
    }
    return NGX_OK;
}

static char *merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_sluice_loc_conf_t *before = parent, *conf = child;

    ngx_conf_merge_uint_value(conf->mode, before->mode, SLUICE_MODE_OFF);
    if (conf->policy != NGX_CONF_UNSET_PTR && conf->pass != NGX_CONF_UNSET_PTR)
        return "has both sluice_policy and sluice_pass; write one of them";
    if (conf->policy == NGX_CONF_UNSET_PTR &&
        conf->pass == NGX_CONF_UNSET_PTR) {
        conf->policy = before->policy;
        conf->pass = before->pass;
    }
    ngx_conf_init_ptr_value(conf->policy, NULL);
    ngx_conf_init_ptr_value(conf->pass, NULL);
    ngx_conf_merge_ptr_value(conf->identity, before->identity, NULL);
    ngx_conf_merge_ptr_value(conf->cost, before->cost, NULL);
    ngx_conf_merge_ptr_value(conf->settle, before->settle, NULL);
    ngx_conf_merge_uint_value(conf->status, before->status, 0);
    ngx_conf_merge_uint_value(conf->log_level, before->log_level, NGX_LOG_ERR);
    if (conf->policy &&
        (check_limits(cf, "sluice_cost", conf->policy, conf->cost) != NGX_OK ||
         check_limits(cf, "sluice_settle", conf->policy, conf->settle) !=
             NGX_OK))
        return NGX_CONF_ERROR;
    if (conf->mode == SLUICE_MODE_OFF || conf->policy || conf->pass)
        return NGX_CONF_OK;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "sluice is on without a policy; write "
                       "\"sluice_policy FILE;\" or \"sluice_pass ADDRESS;\"");
    return NGX_CONF_ERROR;
}

static ngx_int_t add_handler(ngx_http_core_main_conf_t *core, ngx_uint_t phase,
                             ngx_http_handler_pt handler)
{
    ngx_http_handler_pt *place = ngx_array_push(&core->phases[phase].handlers);

    if (!place)
        return NGX_ERROR;
    *place = handler;
    return NGX_OK;
}

static ngx_int_t finish_conf(ngx_conf_t *cf)
{
    ngx_http_core_main_conf_t *core =
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    ngx_http_sluice_main_conf_t *main =
        ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module);
    ngx_int_t rc = ngx_http_sluice_prepare_state(cf, main);

    if (rc == NGX_OK)
        rc = add_handler(core, NGX_HTTP_PREACCESS_PHASE,
                         ngx_http_sluice_handler);
    return rc == NGX_OK ? add_handler(core, NGX_HTTP_LOG_PHASE,
                                      ngx_http_sluice_log_handler)
                        : rc;
}

/* ---- workers ---- */

static ngx_http_sluice_main_conf_t *main_conf(ngx_cycle_t *cycle)
{
    return ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sluice_module);
}

static ngx_int_t init_process(ngx_cycle_t *cycle)
{
    ngx_http_sluice_main_conf_t *main = main_conf(cycle);

    if (main && (ngx_process == NGX_PROCESS_WORKER ||
                 ngx_process == NGX_PROCESS_SINGLE))
        ngx_http_sluice_open_state(main, cycle->log);
    return NGX_OK;
}

static void exit_process(ngx_cycle_t *cycle)
{
    ngx_http_sluice_main_conf_t *main = main_conf(cycle);

    if (main && (ngx_process == NGX_PROCESS_WORKER ||
                 ngx_process == NGX_PROCESS_SINGLE))
        ngx_http_sluice_close_state(main);
}

static ngx_http_module_t context = {
    ngx_http_sluice_add_variables, /* preconfiguration */
    finish_conf,                   /* postconfiguration */
    create_main_conf,
    NULL,
    NULL,
    NULL,
    create_loc_conf,
    merge_loc_conf,
};

ngx_module_t ngx_http_sluice_module = {
    NGX_MODULE_V1,
    &context,
    commands,
    NGX_HTTP_MODULE,
    NULL, /* init_master */
    NULL, /* init_module */
    init_process,
    NULL, /* init_thread */
    NULL, /* exit_thread */
    exit_process,
    NULL, /* exit_master */
    NGX_MODULE_V1_PADDING,
};
