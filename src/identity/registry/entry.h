/* entry.h -- an entry of the registry: all that is kept of one subject.
 *
 * An entry is one piece of memory that begins with what deciders see
 * (identity/subject.h); its texts lie behind it. It is never changed: a write
 * makes another. It belongs to one thread at a time, and is handed over from
 * the thread that reads the registry to the one that asked.
 *
 * A draft is an entry in the making: the same, in arrays of fixed size, with
 * texts that live elsewhere.
 */
#ifndef SL_SUBJECT_RECORD_H
#define SL_SUBJECT_RECORD_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "identity/subject.h"

/* Bytes of texts, and how many of each a subject may have. */
#define SL_SUBJECT_RECORD_ID      256
#define SL_SUBJECT_RECORD_NAME    64 /* a plan, a role, a limit */
#define SL_SUBJECT_RECORD_RATE    64
#define SL_SUBJECT_RECORD_BY      128
#define SL_SUBJECT_RECORD_NOTE    512
#define SL_SUBJECT_RECORD_ROLES   32
#define SL_SUBJECT_RECORD_ALIASES 32
#define SL_SUBJECT_RECORD_RATES   64
#define SL_SUBJECT_RECORD_CREDITS 64 /* that are known to those who decide */

struct sl_subject_record {
    struct sl_subject subject; /* first: sl_subject_unref() gives it back */
    struct sl_str scope;
    const struct sl_str *aliases;
    unsigned alias_count;
    struct sl_str by, note; /* of the last write, and of the subject */
    sl_ns updated;
    uint64_t revision; /* grows with every write, also of others */
    struct sl_subject_record *next;
    const struct sl_alloc *alloc;
    size_t size;
};

struct sl_subject_draft {
    struct sl_str scope, id;
    struct sl_str plan;
    sl_ns expires; /* SL_NS_NONE: never */
    struct sl_str by, note;
    sl_ns updated;
    uint64_t revision;
    struct sl_str roles[SL_SUBJECT_RECORD_ROLES];
    unsigned role_count;
    struct sl_str aliases[SL_SUBJECT_RECORD_ALIASES];
    unsigned alias_count;
    struct sl_subject_override rates[SL_SUBJECT_RECORD_RATES];
    unsigned rate_count;
    struct sl_credit credits[SL_SUBJECT_RECORD_CREDITS]; /* of entries only */
    unsigned credit_count;
};

/* What a write says of itself. What is not in `has` stays as it was; a PUT
 * begins with an empty subject, a PATCH with what is there. */
enum sl_subject_change_kind {
    SL_CHANGE_PUT,
    SL_CHANGE_PATCH,
    SL_CHANGE_REMOVE
};

enum sl_subject_change_has {
    SL_HAS_PLAN = 1 << 0,
    SL_HAS_EXPIRES = 1 << 1,
    SL_HAS_ROLES = 1 << 2,
    SL_HAS_ALIASES = 1 << 3,
    SL_HAS_NOTE = 1 << 4,
    SL_HAS_RATES = 1 << 5,
};

struct sl_subject_change {
    enum sl_subject_change_kind kind;
    struct sl_str scope, id;
    struct sl_str by;
    unsigned has;
    struct sl_str plan; /* "": none */
    sl_ns expires;
    struct sl_str note;
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_str *aliases; /* in lower case */
    unsigned alias_count;
    const struct sl_subject_override *rates; /* an empty rate takes one away */
    unsigned rate_count;
    bool no_rates;   /* a PATCH: those that are there are gone */
    bool must_match; /* else refused: the revision that is to be changed, */
    uint64_t match;  /* or 0: there must be nobody yet */
    unsigned line;   /* of an import */
};

/* Make an entry of a draft. NULL without memory. One that stands for somebody
 * unknown has an id and nothing else. */
SL_MUST_USE struct sl_subject_record *
sl_subject_record_new(const struct sl_subject_draft *draft, bool known,
                      const struct sl_alloc *alloc);

/* NULL is allowed. With all that follow by `next`. */
void sl_subject_records_free(struct sl_subject_record *first);

/* The draft after `change`; `draft` is what was there before, or empty. False
 * if it would pass one of the numbers above: then `diag` says which. */
SL_MUST_USE bool sl_subject_draft_change(struct sl_subject_draft *draft,
                                         const struct sl_subject_change *change,
                                         sl_ns now, struct sl_diag *diag);

/* Is everything alike that a write can say? */
bool sl_subject_draft_same(const struct sl_subject_draft *a,
                           const struct sl_subject_draft *b);

/* The members of a JSON object that tell all of the draft, without brackets:
 * "scope":"user","id":"ann",... If `brief`, those that say nothing are left
 * out, and who wrote it when. */
SL_MUST_USE int sl_subject_draft_json(const struct sl_subject_draft *draft,
                                      sl_ns now, bool brief,
                                      struct sl_buf *out);

/* The other way round; the texts stay where they are. */
void sl_subject_draft_of(const struct sl_subject_record *entry,
                         struct sl_subject_draft *ret);

/* Aliases, and the stamps of all names, are kept in lower case (ASCII): a copy
 * of `text` in `out`, which has as many bytes. */
struct sl_str sl_str_lower(struct sl_str text, char *out);

#endif
