/* webhook_db.h -- the queue of webhooks: endpoints, messages, deliveries.
 *
 * A message is delivered to each enabled endpoint of its organisation whose
 * event types match. A delivery waits in its row, not in memory:
 *
 *     put_message --> WAITING --claim--> leased --record--> DELIVERED
 *                        ^                  |                  DEAD
 *                        +---- retry, or the lease has ended --+
 *
 * A sender claims deliveries that are due: it leases their rows, sends them and
 * records the results. If it dies, the lease ends and they are claimed again: a
 * crash is one more attempt, never a lost one.
 *
 * Pace. A destination (a URL, of any organisation) has a cell of the limiter
 * (core/cell.h) in its row. A claim takes from it, in the same transaction, for
 * each delivery. The cell gives the exact time of the next delivery; its
 * endpoint is claimed again then. So all senders of a database share the pace.
 * A delivery arrives later than it was claimed. If deliveries are evenly
 * spaced, a claim reserves the destination for as long as that may take, and
 * the result moves the cell: the next one has its distance from the arrival.
 * See webhook/pace.h.
 *
 * Notes. What happens to an organisation is told to its contact endpoints, and
 * to those of the operator's organisation, as messages. They have a rate of
 * their own, by organisation and type, whose cells are rows of destinations,
 * too: a flood of events is not a flood of notes.
 *
 * `next` of an endpoint is when there is something to claim: an index finds the
 * endpoints that have work, however many deliveries wait.
 *
 * Invariants. test/unit/registry/webhooks.c checks (1) to (4), also when memory
 * fails; test/daemon/webhooks_out.sh (3) and (5), on a clock that the test
 * moves, webhooks_pace.sh (5) with three senders. webhooks_crash.sh checks (1)
 * and bounds the duplicates that (2) prevents, with daemons that are killed.
 *
 *   (1) An acknowledged message has a row for each endpoint, until each is
 *       delivered, dead or dropped.
 *   (2) No delivery is leased twice at a time; none after it was delivered.
 *   (3) First attempts of an endpoint are leased in the order of the messages,
 *       and to one sender at a time.
 *   (4) At most SL_WEBHOOK_LEASED deliveries of an endpoint, and
 *       SL_WEBHOOK_LEASED_ORG of an organisation, are leased.
 *   (5) A destination gets no more than its limit allows.
 */
#ifndef SL_REGISTRY_WEBHOOK_DB_H
#define SL_REGISTRY_WEBHOOK_DB_H

#include "base/buf.h"
#include "core/limit.h"
#include "webhook/retry.h"

#define SL_WEBHOOK_ID          64 /* bytes of an id at most, with its NUL */
#define SL_WEBHOOK_TYPE        128
#define SL_WEBHOOK_KEY         256 /* an idempotency key */
#define SL_WEBHOOK_PAYLOAD     ((size_t)256 << 10)
#define SL_WEBHOOK_EVENTS      50  /* event types of an endpoint */
#define SL_WEBHOOK_ENDPOINTS   100 /* of an organisation */
#define SL_WEBHOOK_ANSWER      ((size_t)16 << 10) /* that is read */
#define SL_WEBHOOK_KEPT        1024 /* bytes of an answer in the log */
#define SL_WEBHOOK_LEASED      8
#define SL_WEBHOOK_LEASED_ORG  64
#define SL_WEBHOOK_PAGE        1000  /* rows of a list at most */
#define SL_WEBHOOK_REPLAY_MOST 10000 /* messages of one replay at most */

/* Notes of a type to the contacts of an organisation, and of the operator. */
#define SL_WEBHOOK_NOTES          "20/hour burst 20"
#define SL_WEBHOOK_OPERATOR_NOTES "600/hour burst 100"

enum sl_webhook_op {
    SL_WEBHOOK_PUT_ENDPOINT,
    SL_WEBHOOK_CHANGE_ENDPOINT,
    SL_WEBHOOK_DROP_ENDPOINT,
    SL_WEBHOOK_LIST_ENDPOINTS, /* of `org`, or the one with `id` */
    SL_WEBHOOK_PUT_MESSAGE,
    SL_WEBHOOK_FIND_KEY, /* the message of an idempotency key */
    SL_WEBHOOK_GET_MESSAGE,
    SL_WEBHOOK_LIST_MESSAGES, /* of `org`, by time and type */
    SL_WEBHOOK_LIST_ATTEMPTS,
    SL_WEBHOOK_REPLAY,       /* the message `id` */
    SL_WEBHOOK_REPLAY_RANGE, /* of the endpoint `id`, by time and type */
    SL_WEBHOOK_CLAIM,
    SL_WEBHOOK_RECORD,
    SL_WEBHOOK_COUNT,
    SL_WEBHOOK_PUT_NOTE,      /* to contacts of `org` and of `operator_org` */
    SL_WEBHOOK_END_OVERRIDES, /* a note for each that ended in (from, to] */
    SL_WEBHOOK_FREE, /* all leases: this process alone has the database */
};

/* Which members of an endpoint are changed. */
enum sl_webhook_has {
    SL_WEBHOOK_HAS_URL = 1 << 0,
    SL_WEBHOOK_HAS_EVENTS = 1 << 1,
    SL_WEBHOOK_HAS_METADATA = 1 << 2,
    SL_WEBHOOK_HAS_ENABLED = 1 << 3,
    SL_WEBHOOK_HAS_SECRET = 1 << 4, /* rotated: the old one until old_until */
    SL_WEBHOOK_HAS_CONTACT = 1 << 5,
    SL_WEBHOOK_HAS_DROP = 1 << 6, /* waiting deliveries are dropped */
};

struct sl_webhook_endpoint {
    struct sl_str id, org, url;
    struct sl_str events;   /* JSON array of types; * matches any text */
    struct sl_str metadata; /* JSON object */
    struct sl_str secret;
    sl_ns old_until;
    bool enabled, contact;
    struct sl_str reason; /* why it is disabled */
};

/* A delivery that was claimed: this, then the bytes of its texts in the order
 * of `lens`. */
enum {
    SL_CLAIMED_MESSAGE,
    SL_CLAIMED_TYPE,
    SL_CLAIMED_PAYLOAD,
    SL_CLAIMED_ENDPOINT,
    SL_CLAIMED_ORG,
    SL_CLAIMED_URL,
    SL_CLAIMED_SECRET,
    SL_CLAIMED_OLD_SECRET, /* "": none, or it has expired */
    SL_CLAIMED_TEXTS
};
struct sl_webhook_claimed {
    uint64_t number;
    uint64_t tries; /* before */
    sl_ns at;       /* when the message was accepted */
    uint64_t held;  /* it is not counted by the quota yet */
    sl_ns lease;    /* its end, which names the claim */
    sl_ns updated;  /* when its endpoint was changed, as the claim has it */
    uint64_t lens[SL_CLAIMED_TEXTS];
};

/* What came of one attempt. */
struct sl_webhook_result {
    uint64_t number;
    unsigned tries;
    sl_ns lease, updated; /* those of the claim */
    struct sl_str message, endpoint, org;
    struct sl_attempt attempt; /* failures and before are read here */
    sl_ns at, took;
    struct sl_str url;
    sl_ns taken;          /* from the pace: when it was claimed */
    sl_ns arrived;        /* at the destination, at the latest; 0: not sent */
    struct sl_str answer; /* the first bytes of it */
    struct sl_str error;  /* a sentence without an answer, or "" */
    bool has_next;        /* the sender has another one of the endpoint, whose
                           * result comes later */
    bool held;            /* the quota has counted it before this attempt */
    bool returned;        /* it was not sent: others may claim it... */
    sl_ns not_before;     /* ...then */

    struct sl_retry retry; /* out */
    bool disabled;         /* out: this attempt has disabled the endpoint */
    bool known;            /* out: the delivery is still there, and waited */
    bool is_old; /* out, of one result of an endpoint at least: it was changed
                  * or deleted after the claim */
};

struct sl_webhook_counts {
    uint64_t waiting, dead, disabled; /* waiting: for enabled endpoints */
    sl_ns oldest; /* when the oldest waiting message was accepted, of those that
                   * the quota does not hold; 0: none */
};

struct sl_webhook_job {
    enum sl_webhook_op op;
    struct sl_webhook_endpoint endpoint;
    unsigned has;

    struct sl_str id;   /* of the message or endpoint */
    struct sl_str org;  /* filter of lists; "": any */
    struct sl_str type; /* PUT_MESSAGE; filter of ranges and lists, which may
                         * end in *; "": any */
    struct sl_str payload;
    struct sl_str key, fingerprint; /* PUT_MESSAGE, FIND_KEY; key "": none */
    struct sl_str only;             /* PUT_MESSAGE: to this endpoint only;
                                     * CONFLICT if it is disabled; "": all that
                                     * match */
    sl_ns hold;                     /* PUT_MESSAGE: not before; 0: at once */
    struct sl_str operator_org;     /* notes; "": none */
    bool without_payload;           /* GET_MESSAGE */

    /* LIST_MESSAGES, LIST_ATTEMPTS, REPLAY_RANGE */
    struct sl_str endpoint_id, message_id;
    int outcome; /* 1: successes; 0: failures; -1: both */
    sl_ns from, to;
    uint64_t skip;   /* END_OVERRIDES: rows of the jobs before */
    uint64_t before; /* 0, or a number of the page before; LIST_MESSAGES has
                      * message_id */
    unsigned most;

    /* CLAIM; the first two RECORD, too */
    struct sl_limit limit; /* of a destination */
    bool unlimited;
    sl_ns lease; /* how long */
    unsigned endpoints;
    size_t bytes; /* about so many at most */

    struct sl_webhook_result *results; /* RECORD */
    unsigned count;

    /* Out. */
    char found[SL_WEBHOOK_ID]; /* PUT_MESSAGE, FIND_KEY: of an earlier one with
                                * this key; "": none */
    unsigned deliveries;       /* PUT_MESSAGE, REPLAY: how many */
    unsigned claimed, paced;   /* CLAIM */
    sl_ns next;                /* CLAIM: when to claim again; SL_NS_MAX: when a
                                * message comes. END_OVERRIDES: the next `from`;
                                * before `to` if there are more */
    struct sl_webhook_counts counts;
    unsigned omitted; /* notes: beyond their rate */
};

/* The id of a message or an endpoint: "msg_", the time, and `random`. */
void sl_webhook_make_id(char ret[SL_WEBHOOK_ID], const char *prefix, sl_ns now,
                        const uint64_t random[2]);

/* Does a list of event types (JSON) have this type? "order.*" matches all that
 * begin with "order.", "*" all. */
bool sl_webhook_matches(struct sl_str events, struct sl_str type);

#endif
