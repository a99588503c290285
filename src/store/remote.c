/* remote.c -- what the seats of one store have in common. */
#include "store/remote.h"

#include <string.h>

#include "base/str.h"

static void print(uint64_t word, char out[16])
{
    for (unsigned i = 0; i < 16; i++, word <<= 4)
        out[i] = "0123456789abcdef"[word >> 60];
}

static bool read(const char *text, uint64_t *ret)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 16; i++) {
        int digit = sl_hex_value(text[i]);

        if (digit < 0)
            return false;
        word = word << 4 | (uint64_t)digit;
    }
    *ret = word;
    return true;
}

static bool read_key(struct sl_str text, struct sl_hash_key *ret)
{
    return text.len == SL_STORE_IDENTITY && read(text.at, &ret->k0) &&
           read(text.at + 16, &ret->k1);
}

int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1])
{
    struct sl_hash_key key;
    int err = sl_hash_key_make(&key);

    if (err)
        return err;
    print(key.k0, ret);
    print(key.k1, ret + 16);
    ret[SL_STORE_IDENTITY] = '\0';
    return 0;
}

int sl_store_identity_init(struct sl_store_identity *shared,
                           struct sl_store *store)
{
    int err;

    memset(shared, 0, sizeof(*shared));
    pthread_mutex_init(&shared->lock, NULL);
    shared->store = store;
    err = sl_store_identity_fresh(shared->secret_text);
    return err ? err : sl_hash_key_make(&shared->forgets.key);
}

void sl_store_identity_done(struct sl_store_identity *shared)
{
    pthread_mutex_destroy(&shared->lock);
    explicit_bzero(shared->secret_text, sizeof(shared->secret_text));
    explicit_bzero(&shared->secret, sizeof(shared->secret));
}

void sl_store_identity_secret(struct sl_store_identity *shared,
                              char ret[SL_STORE_IDENTITY + 1])
{
    pthread_mutex_lock(&shared->lock);
    memcpy(ret, shared->secret_text, SL_STORE_IDENTITY + 1);
    pthread_mutex_unlock(&shared->lock);
}

bool sl_store_identity_see_secret(struct sl_store_identity *shared,
                                  struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&shared->lock);
    if (!shared->has_secret) {
        shared->has_secret = true;
        memcpy(shared->secret_text, text.at, SL_STORE_IDENTITY);
        shared->secret = key;
        atomic_store_explicit(&shared->store->found, &shared->secret,
                              memory_order_release);
    }
    *ret_changed = memcmp(shared->secret_text, text.at, SL_STORE_IDENTITY) != 0;
    pthread_mutex_unlock(&shared->lock);
    return true;
}

bool sl_store_identity_see_epoch(struct sl_store_identity *shared,
                                 struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&shared->lock);
    *ret_changed = shared->has_epoch &&
                   memcmp(shared->epoch, text.at, SL_STORE_IDENTITY) != 0;
    shared->has_epoch = true;
    memcpy(shared->epoch, text.at, SL_STORE_IDENTITY);
    if (*ret_changed)
        shared->epochs++;
    pthread_mutex_unlock(&shared->lock);
    return true;
}

/* ---- when to stop asking a store that does not answer. */

#define IN_ROW 5
#define MANY   20 /* in a second: fewer are no share */
#define EVERY  (300 * SL_MS)

bool sl_breaker_may(struct sl_breaker *breaker, sl_ns now, bool *ret_tries)
{
    *ret_tries = false;
    if (!breaker->is_open)
        return true;
    if (breaker->tries || now < breaker->try_at)
        return false;
    breaker->tries = *ret_tries = true;
    return true;
}

/* A second, then a new one. */
static void count(struct sl_breaker *breaker, bool good, sl_ns now)
{
    if (now - breaker->began >= SL_S) {
        breaker->began = now;
        breaker->good = breaker->bad = 0;
    }
    breaker->good += good;
    breaker->bad += !good;
    breaker->in_row = good ? 0 : breaker->in_row + 1;
}

static bool is_too_bad(const struct sl_breaker *breaker)
{
    return breaker->in_row >= IN_ROW || (breaker->good + breaker->bad >= MANY &&
                                         breaker->bad >= breaker->good);
}

bool sl_breaker_note(struct sl_breaker *breaker, bool good, bool tried,
                     sl_ns now)
{
    bool was_open = breaker->is_open;

    if (was_open && !tried)
        return false; /* it was asked before; see what the one says that is */
    count(breaker, good, now);
    if (was_open && good) {
        *breaker = (struct sl_breaker){.dice = breaker->dice, .began = now};
    } else if (was_open || (!good && is_too_bad(breaker))) {
        breaker->is_open = true;
        breaker->tries = false;
        breaker->try_at = now + sl_jitter_span(&breaker->dice, EVERY);
    }
    return was_open != breaker->is_open;
}

void sl_breaker_forget(struct sl_breaker *breaker, bool tried)
{
    if (tried)
        breaker->tries = false;
}

sl_ns sl_breaker_tries_in(const struct sl_breaker *breaker, sl_ns now)
{
    if (!breaker->is_open || breaker->try_at <= now)
        return 0;
    return breaker->try_at - now;
}

/* ---- what there is to say about a store elsewhere. */

#define TELL_AGAIN (10 * SL_S) /* of the same trouble */

void sl_store_log_tell(const struct sl_store_log *herald,
                       enum sl_store_news news, const char *sentence)
{
    if (herald->on_news && !herald->closing)
        herald->on_news(herald->ctx, news, sentence);
}

bool sl_store_log_may(struct sl_store_log *herald, int trouble, sl_ns now)
{
    if (herald->told_at > 0 && herald->told == trouble &&
        now - herald->told_at < TELL_AGAIN)
        return false;
    herald->told = trouble;
    herald->told_at = now;
    return true;
}

void sl_store_log_note(const struct sl_store_log *herald,
                       struct sl_breaker *breaker, bool good, bool *tries,
                       sl_ns now, _Atomic bool *is_open)
{
    bool changed = sl_breaker_note(breaker, good, *tries, now);

    *tries = false;
    if (!changed)
        return;
    atomic_store(is_open, breaker->is_open);
    if (breaker->is_open)
        sl_store_log_tell(herald, SL_STORE_EVENT_OPENED,
                          "too many takes fail; the circuit breaker is open, "
                          "takes fail at once except for occasional probes");
    else
        sl_store_log_tell(herald, SL_STORE_EVENT_CLOSED,
                          "the store answers again");
}

/* ---- seats by loop. */

void sl_remote_clients_init(struct sl_remote_clients *seats)
{
    pthread_mutex_init(&seats->lock, NULL);
}

void sl_remote_clients_done(struct sl_remote_clients *seats)
{
    pthread_mutex_destroy(&seats->lock);
}

void *sl_remote_clients_find(const struct sl_remote_clients *seats,
                             const struct sl_loop *loop)
{
    unsigned count = atomic_load_explicit(&seats->count, memory_order_acquire);

    for (unsigned i = 0; loop && i < count; i++)
        if (atomic_load_explicit(&seats->list[i].loop, memory_order_acquire) ==
            loop)
            return seats->list[i].seat;
    return NULL;
}

int sl_remote_clients_add(struct sl_remote_clients *seats, struct sl_loop *loop,
                          void *seat, struct sl_diag *diag)
{
    unsigned at = 0;

    pthread_mutex_lock(&seats->lock);
    while (at < SL_REMOTE_CLIENTS && atomic_load(&seats->list[at].loop))
        at++;
    if (at < SL_REMOTE_CLIENTS) {
        seats->list[at].seat = seat;
        atomic_store(&seats->list[at].loop, loop);
        if (at >= atomic_load(&seats->count))
            atomic_store(&seats->count, at + 1);
    }
    pthread_mutex_unlock(&seats->lock);
    if (at < SL_REMOTE_CLIENTS)
        return 0;
    return sl_diag_error(diag, SLUICE_EFULL, "more than %d worker threads",
                         SL_REMOTE_CLIENTS);
}

void *sl_remote_clients_remove(struct sl_remote_clients *seats,
                               const struct sl_loop *loop)
{
    void *seat = NULL;

    pthread_mutex_lock(&seats->lock);
    for (unsigned i = 0; i < atomic_load(&seats->count); i++)
        if (atomic_load(&seats->list[i].loop) == loop) {
            seat = seats->list[i].seat;
            atomic_store(&seats->list[i].loop, NULL);
        }
    pthread_mutex_unlock(&seats->lock);
    return seat;
}

void *sl_remote_clients_at(const struct sl_remote_clients *seats, unsigned i)
{
    return atomic_load(&seats->list[i].loop) ? seats->list[i].seat : NULL;
}
