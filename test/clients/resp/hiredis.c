/* hiredis.c -- what hiredis sees: hiredis HOST PORT PASSWORD KEY */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *context;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, context ? context->errstr : "no memory");
    exit(1);
}

static redisReply *must(redisReply *reply)
{
    if (!reply)
        fail("no reply");
    return reply;
}

static void print_integers(redisReply *r)
{
    for (size_t i = 0; i < r->elements; i++)
        printf("%s%lld", i > 0 ? " " : "", r->element[i]->integer);
    printf("\n");
    freeReplyObject(r);
}

static void throttle(const char *key)
{
    for (int i = 0; i < 4; i++)
        print_integers(
            must(redisCommand(context, "CL.THROTTLE %s 2 1 1", key)));
    print_integers(must(redisCommand(context, "CL.THROTTLE %s 2 1 1 -1", key)));
}

static void pipeline(const char *key)
{
    static const int quantities[] = {1, 4, 1};

    for (int i = 0; i < 3; i++)
        redisAppendCommand(context, "CL.THROTTLE %s:p 4 1 1 %d", key,
                           quantities[i]);
    for (int i = 0; i < 3; i++) {
        void *reply = NULL;
        redisReply *r;

        if (redisGetReply(context, &reply) != REDIS_OK)
            fail("pipeline");
        r = must(reply);
        printf("%lld %lld\n", r->element[0]->integer, r->element[2]->integer);
        freeReplyObject(r);
    }
}

/* The value behind a name. */
static const redisReply *member(const redisReply *r, const char *name)
{
    for (size_t i = 0; i + 1 < r->elements; i += 2)
        if (strcmp(r->element[i]->str, name) == 0)
            return r->element[i + 1];
    fail(name);
    return NULL;
}

static redisReply *check(const char *key, int cost)
{
    return must(redisCommand(context, "SLUICE.CHECK GET /x user %s cost %d",
                             key, cost));
}

static void decide(const char *key)
{
    redisReply *r = check(key, 1);

    printf("%lld %lld %lld %lld\n", member(r, "allowed")->integer,
           member(r, "status")->integer, member(r, "limit")->integer,
           member(r, "remaining")->integer);
    freeReplyObject(r);
    freeReplyObject(check(key, 4));
    r = check(key, 1);
    printf("%lld %lld %s %lld\n", member(r, "allowed")->integer,
           member(r, "status")->integer, member(r, "by")->str,
           member(r, "retry_after_ms")->integer);
    freeReplyObject(r);
}

int main(int argc, char **argv)
{
    redisReply *r;

    if (argc != 5)
        return 2;
    context = redisConnect(argv[1], (int)strtol(argv[2], NULL, 10));
    if (!context || context->err)
        fail("connect");
    freeReplyObject(must(redisCommand(context, "AUTH %s", argv[3])));
    r = must(redisCommand(context, "PING"));
    printf("%s\n", r->str);
    freeReplyObject(r);
    throttle(argv[4]);
    pipeline(argv[4]);
    decide(argv[4]);
    r = must(redisCommand(context, "NONSENSE"));
    printf("%.7s\n", r->str + 4);
    freeReplyObject(r);
    redisFree(context);
    return 0;
}
