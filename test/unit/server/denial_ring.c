/* The last denials of a thread. The numbers are those of
 * src/server/denial_ring.h. */
#include "server/denial_ring.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "asking.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "features: { off: { enabled: false } }\n"
    "limits:\n"
    "  day: { kind: fixed-window, per: user, rate: 1/day }\n"
    "  pair: { kind: quota, per: [org, user], rate: 1/month }\n"
    "routes:\n"
    "  - { match: /off, limits: [day], feature: off }\n"
    "  - { match: /day, endpoint: day, limits: [day] }\n"
    "  - { match: /pair, limits: [pair] }\n";

static struct rig rig;
static struct sl_denial_ring *ring;
static struct sl_denial_copy copies[SL_DENIAL_RING];

static void begin(void)
{
    rig_open(&rig, policy);
    CHECK_EQ(sl_denial_ring_open(NULL, &ring), 0);
    sl_denial_ring_keep(ring, true);
}

static void end(void)
{
    sl_denial_ring_close(ring);
    rig_close(&rig);
}

static void ask(struct sl_request request, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sl_denial_ring_decision(ring, rig_ask(&rig, request));
}

static unsigned take(uint64_t *skipped)
{
    *skipped = 0;
    return sl_denial_ring_take(ring, copies, SL_DENIAL_RING, skipped);
}

/* The denials that a query finds, as JSON. The caller frees them. */
static json_t *find(struct sl_denial_query query, const struct sl_hash_key *key,
                    bool all)
{
    struct sl_denial_rings of = {.rings = &ring,
                                 .count = 1,
                                 .all = all,
                                 .key = key,
                                 .node = SL_STR("here"),
                                 .alloc = &sl_alloc_libc};
    struct sl_buf out;
    json_t *root;
    int found;

    query.to = INT64_MAX;
    if (query.before_number == 0) { /* the first page */
        query.before = INT64_MAX;
        query.before_number = UINT64_MAX;
    }
    query.most = query.most ? query.most : SL_DENIALS_MOST;
    sl_buf_init(&out, (size_t)1 << 22, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&out, SL_STR("")), 0);
    found = sl_denial_rings_find(&of, &query, &out);
    CHECK(found >= 0);
    root = json_array();
    if (out.len > 0) {
        char *text = malloc(out.len + 3);

        if (!text)
            exit(1);
        text[0] = '[';
        memcpy(text + 1, out.bytes, out.len);
        for (size_t i = 1; i < out.len; i++)
            if (text[i] == '\n')
                text[i] = ',';
        text[out.len] = ']'; /* instead of the last newline */
        json_decref(root);
        root = json_loadb(text, out.len + 1, 0, NULL);
        free(text);
    }
    CHECK(root);
    CHECK_EQ((int)json_array_size(root), found);
    sl_buf_done(&out);
    return root;
}

static const char *text_of(json_t *list, size_t at, const char *name)
{
    const char *text =
        json_string_value(json_object_get(json_array_get(list, at), name));

    return text ? text : "";
}

static size_t count(struct sl_denial_query query)
{
    json_t *list = find(query, NULL, true);
    size_t size = json_array_size(list);

    json_decref(list);
    return size;
}

static void check_record(void)
{
    json_t *list, *caller;

    begin();
    CASE("(1) a denial is there, with all that is known of it");
    ask(GET("/day", USER("ann"), .org = SL_STR("acme"),
            .request_id = SL_STR("r1")),
        2);
    list =
        find((struct sl_denial_query){.request_id = SL_STR("r1")}, NULL, true);
    CHECK_EQ(json_array_size(list), 1);
    CHECK_STR(text_of(list, 0, "limit"), "day");
    CHECK_STR(text_of(list, 0, "reason"), "limit");
    CHECK_STR(text_of(list, 0, "code"), "RATE_LIMITED");
    CHECK_STR(text_of(list, 0, "endpoint"), "day");
    CHECK_STR(text_of(list, 0, "scope"), "user");
    CHECK_STR(text_of(list, 0, "daemon"), "here");
    CHECK_EQ(
        json_integer_value(json_object_get(json_array_get(list, 0), "line")),
        4);
    CHECK_EQ(json_integer_value(
                 json_object_get(json_array_get(list, 0), "capacity")),
             1);
    caller = json_object_get(json_array_get(list, 0), "caller");
    CHECK_STR(json_string_value(json_object_get(caller, "user")), "ann");
    CHECK_STR(json_string_value(json_object_get(caller, "org")), "acme");
    json_decref(list);

    CASE("a quota and a feature are told apart");
    ask(GET("/pair", USER("ann"), .org = SL_STR("acme"),
            .request_id = SL_STR("r2")),
        2);
    ask(GET("/off", USER("ann"), .request_id = SL_STR("r3")), 1);
    list = find(
        (struct sl_denial_query){.scope = SL_STR("user"), .id = SL_STR("ann")},
        NULL, true);
    CHECK_EQ(json_array_size(list), 3);
    CHECK_EQ(count((struct sl_denial_query){.scope = SL_STR("org"),
                                            .id = SL_STR("acme")}),
             2);
    json_decref(list);
    list =
        find((struct sl_denial_query){.request_id = SL_STR("r3")}, NULL, true);
    CHECK_STR(text_of(list, 0, "reason"), "feature");
    CHECK_STR(text_of(list, 0, "limit"), "");
    json_decref(list);
    list =
        find((struct sl_denial_query){.request_id = SL_STR("r2")}, NULL, true);
    CHECK_STR(text_of(list, 0, "reason"), "quota");
    CHECK_STR(text_of(list, 0, "scope"), "org:user");
    json_decref(list);
    end();
}

static void check_written(void)
{
    uint64_t skipped;
    json_t *list;

    begin();
    CASE("(2) what was taken is left out once it is in the database");
    ask(GET("/day", USER("ann"), .request_id = SL_STR("r1")), 4);
    CHECK_EQ(take(&skipped), 3);
    list = find((struct sl_denial_query){0}, NULL, false);
    CHECK_EQ(json_array_size(list), 3);
    json_decref(list);
    sl_denial_ring_written(ring);
    list = find((struct sl_denial_query){0}, NULL, false);
    CHECK_EQ(json_array_size(list), 0);
    json_decref(list);
    end();
}

static void check_names(void)
{
    const struct sl_hash_key key = {1, 2}, other = {1, 3};
    char a[SL_DENIAL_HASH], b[SL_DENIAL_HASH];
    struct sl_denial_name ann = {SL_STR("user"), SL_STR("ann")};
    struct sl_denial_name org = {SL_STR("org"), SL_STR("ann")};
    char *text;
    json_t *list;

    begin();
    CASE("with a key no name is in the answer");
    ask(GET("/day", USER("ann")), 2);
    list = find((struct sl_denial_query){0}, &key, true);
    text = json_dumps(list, 0);
    CHECK(text && !strstr(text, "ann"));
    free(text);
    sl_denial_hash(&key, ann, a);
    CHECK_STR(json_string_value(json_object_get(
                  json_object_get(json_array_get(list, 0), "caller"), "user")),
              a);
    json_decref(list);
    CHECK_EQ(strlen(a), SL_DENIAL_HASH - 1);

    CASE("a hash depends on the scope and on the key");
    sl_denial_hash(&key, org, b);
    CHECK(strcmp(a, b) != 0);
    sl_denial_hash(&other, ann, b);
    CHECK(strcmp(a, b) != 0);

    CASE("(4) after an erasure no ring has the name");
    ask(GET("/day", USER("bob")), 2);
    sl_denial_ring_erase(ring, SL_STR("user"), SL_STR("ann"));
    CHECK_EQ(count((struct sl_denial_query){0}), 1);
    CHECK_EQ(count((struct sl_denial_query){.scope = SL_STR("user"),
                                            .id = SL_STR("ann")}),
             0);
    end();
}

static void check_bounds(void)
{
    uint64_t skipped;
    json_t *list;
    char name[16];

    begin();
    CASE("(1) (2) the oldest are overwritten, and counted");
    for (unsigned i = 0; i < SL_DENIAL_RING + 30; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        ask((struct sl_request){.path = SL_STR("/day"), .user = sl_str_c(name)},
            1); /* passes: one of SL_DENIAL_PASSES is recorded */
        ask((struct sl_request){.path = SL_STR("/day"), .user = sl_str_c(name)},
            1);
        rig.now += 10 * SL_MS;
    }
    CHECK(take(&skipped) <= SL_DENIAL_RING);
    CHECK(skipped >= 30);
    CHECK_EQ(count((struct sl_denial_query){.scope = SL_STR("user"),
                                            .id = SL_STR("u0")}),
             0);
    CHECK_EQ(count((struct sl_denial_query){.scope = SL_STR("user"),
                                            .id = SL_STR("u2077")}),
             1);

    CASE("(2) each is taken once");
    CHECK_EQ(take(&skipped), 0);
    CHECK_EQ(skipped, 0);

    CASE("(3) of one caller and limit some are taken");
    ask(GET("/day", USER("ann")), 1);
    CHECK(take(&skipped) <= 1);
    ask(GET("/day", USER("ann")), 100);
    ask(GET("/day", USER("u1")), 1);
    CHECK(take(&skipped) >= SL_DENIAL_SAME);
    CHECK(skipped >= 100 - SL_DENIAL_SAME - 1);

    CASE("a share of what passes is recorded, and found if asked for");
    list =
        find((struct sl_denial_query){.passed = true, .most = SL_DENIALS_MOST},
             NULL, true);
    CHECK(json_array_size(list) > 0);
    json_decref(list);

    CASE("not kept: nothing is recorded");
    sl_denial_ring_keep(ring, false);
    ask(GET("/day", USER("ann")), 5);
    CHECK_EQ(take(&skipped), 0);
    end();
}

/* Two requests of each of so many callers: one passes, one is denied. */
static void ask_pairs(unsigned from, unsigned to)
{
    char name[16];

    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        ask((struct sl_request){.path = SL_STR("/day"), .user = sl_str_c(name)},
            2);
    }
}

static void check_floods(void)
{
    const struct sl_denial_query all = {.scope = SL_STR("user"),
                                        .id = SL_STR("ann")};
    const struct sl_denial_query bob = {.scope = SL_STR("user"),
                                        .id = SL_STR("bob")};
    uint64_t skipped;
    unsigned taken;

    begin();
    CASE("(5) one caller does not fill the ring; the rest is counted");
    ask(GET("/day", USER("ann")), 5001);
    CHECK_EQ(count(all), SL_DENIAL_SECOND);
    CHECK_EQ(take(&skipped), SL_DENIAL_SAME);
    CHECK_EQ(skipped, 5000 - SL_DENIAL_SAME);

    CASE("(5) another caller is recorded in the same second");
    ask(GET("/day", USER("bob")), 3);
    CHECK_EQ(count(bob), 2);

    CASE("(5) a reason without a limit counts by the caller, too");
    ask(GET("/off", USER("eve")), 100);
    CHECK_EQ(count((struct sl_denial_query){.scope = SL_STR("user"),
                                            .id = SL_STR("eve")}),
             SL_DENIAL_SECOND);

    CASE("(5) in the next second there is room again");
    rig.now += SL_S;
    ask(GET("/day", USER("ann")), 2);
    CHECK_EQ(count(all), SL_DENIAL_SECOND + 2);
    end();

    begin();
    CASE("(5) in a flood the first denial of most callers is recorded");
    ask_pairs(0, 4000);
    taken = take(&skipped);
    CHECK(taken > SL_DENIAL_FLOOD);
    CHECK(taken <= SL_DENIAL_FLOOD + SL_DENIAL_CALLERS + 4000 / 128);
    CHECK_EQ(taken + skipped, 4000 + 4000 / SL_DENIAL_PASSES);
    ask(GET("/day", USER("bob")), 100);
    CHECK(count(bob) <= SL_DENIAL_FLOODED);
    end();
}

static void check_pages(void)
{
    struct sl_denial_query query = {.most = 7};
    char name[16], last[64] = "";
    size_t seen = 0;
    json_t *list;

    begin();
    CASE("pages: each record once, the newest first");
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        ask((struct sl_request){.path = SL_STR("/day"), .user = sl_str_c(name)},
            2);
    }
    for (;;) {
        size_t size;
        const char *cursor;

        list = find(query, NULL, true);
        size = json_array_size(list);
        seen += size;
        if (size == 0)
            break;
        cursor = text_of(list, size - 1, "cursor");
        snprintf(last, sizeof(last), "%s", cursor);
        CHECK_EQ(sscanf(last, "%" SCNd64 "-%" SCNu64, &query.before,
                        &query.before_number),
                 2);
        json_decref(list);
    }
    json_decref(list);
    CHECK_EQ(seen, 40);
    end();
}

static void check_long(void)
{
    char user[600], id[SL_REQUEST_ID + 1];
    json_t *list;

    begin();
    CASE("long texts are cut, and the record is whole");
    memset(user, 'u', sizeof(user) - 1);
    user[sizeof(user) - 1] = '\0';
    memset(id, 'r', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    ask(
        (struct sl_request){
            .path = SL_STR("/pair"),
            .user = {user, 250},
            .org = {user, 250},
            .request_id = sl_str_c(id)
    },
        2);
    list =
        find((struct sl_denial_query){.request_id = sl_str_c(id)}, NULL, true);
    CHECK_EQ(json_array_size(list), 1);
    CHECK_STR(text_of(list, 0, "limit"), "pair");
    json_decref(list);
    end();
}

/* The name of this scope in the only record of `id`, or NULL. The caller frees
 * it. */
static char *name_of(const char *id, const char *scope)
{
    json_t *list =
        find((struct sl_denial_query){.request_id = sl_str_c(id)}, NULL, true);
    const char *name = json_string_value(json_object_get(
        json_object_get(json_array_get(list, 0), "caller"), scope));
    char *ret = name ? strdup(name) : NULL;

    CHECK_EQ(json_array_size(list), 1);
    json_decref(list);
    return ret;
}

static void check_long_names(void)
{
    unsigned whole = 0, none = 0, others = 0, cut = 0;
    char user[SL_DENIAL_TEXTS], id[16];

    begin();
    CASE("(1) a name is whole, or not there");
    memset(user, 'u', sizeof(user));
    for (unsigned len = 200; len <= 420; len++) {
        struct sl_request request = {
            .path = SL_STR("/pair"),
            .user = {user, len},
            .org = {user, 400},
            .ip = SL_STR("203.0.113.177")
        };
        char *ip, *name;

        snprintf(id, sizeof(id), "r%u", len);
        request.request_id = sl_str_c(id);
        rig_ask(&rig, request); /* passes */
        ask(request, 1);
        name = name_of(id, "user");
        cut += name && strlen(name) != len;
        free(name);
        ip = name_of(id, "ip");
        if (!ip)
            none++;
        else if (strcmp(ip, "203.0.113.177") == 0)
            whole++;
        else
            others++;
        free(ip);
    }
    CHECK(whole > 0);
    CHECK(none > 0);
    CHECK_EQ(others, 0);
    CHECK_EQ(cut, 0);
    end();
}

static void check_memory(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_denial_ring *none = NULL;
    struct sl_denial_rings of = {.count = 1, .alloc = &alloc};
    struct sl_denial_query query = {.most = 1};
    struct sl_buf out;

    CASE("without memory there is none");
    CHECK_EQ(sl_denial_ring_open(&alloc, &none), SLUICE_ENOMEM);
    CHECK(!none);
    sl_denial_ring_close(none);
    f.calls = 0;
    sl_buf_init(&out, 100, &alloc);
    CHECK_EQ(sl_denial_rings_find(&of, &query, &out), SLUICE_ENOMEM);
    sl_buf_done(&out);
    fail_check(&f);
}

/* ---- threads ---- */

static _Atomic bool over;

static void *read_many(void *ctx)
{
    static struct sl_denial_copy own[64];
    uint64_t *all = ctx, skipped;

    while (!atomic_load(&over)) {
        skipped = 0;
        all[0] += sl_denial_ring_take(ring, own, 64, &skipped);
        all[1] += skipped;
        json_decref(find((struct sl_denial_query){.most = 3}, NULL, true));
    }
    return NULL;
}

static void check_threads(void)
{
    uint64_t all[2] = {0}, skipped;
    pthread_t reader;

    begin();
    CASE("(2) another thread takes while it records");
    ask(GET("/day", USER("ann")), 1);
    if (pthread_create(&reader, NULL, read_many, all))
        exit(1);
    for (unsigned i = 0; i < 200; i++, rig.now += SL_S)
        ask(GET("/day", USER("ann")), 100);
    atomic_store(&over, true);
    pthread_join(reader, NULL);
    all[0] += take(&skipped);
    all[1] += skipped;
    CHECK_EQ(all[0] + all[1], 20000);
    end();
}

int main(void)
{
    check_record();
    check_written();
    check_names();
    check_bounds();
    check_floods();
    check_pages();
    check_long();
    check_long_names();
    check_memory();
    check_threads();
    return CHECK_DONE();
}
