/* rls.h -- the messages of Envoy's rate limit service, as plain structs.
 *
 * envoy.service.ratelimit.v3: RateLimitRequest is read and RateLimitResponse is
 * written; the reverse is for tests and clients. Texts point into the bytes.
 * The maxima below are Sluice's own: Envoy sends a few descriptors with a few
 * entries.
 */
#ifndef SL_WIRE_RLS_H
#define SL_WIRE_RLS_H

#include "base/diag.h"
#include "wire/pb.h"

#define SL_RLS_DESCRIPTORS 64
#define SL_RLS_ENTRIES     32  /* of one descriptor */
#define SL_RLS_ALL         512 /* entries of all descriptors */
#define SL_RLS_HEADERS     48

/* envoy.type.v3.RateLimitUnit and RateLimitResponse.RateLimit.Unit. */
enum sl_rls_unit {
    SL_RLS_UNKNOWN,
    SL_RLS_SECOND,
    SL_RLS_MINUTE,
    SL_RLS_HOUR,
    SL_RLS_DAY,
    SL_RLS_MONTH,
    SL_RLS_YEAR,
    SL_RLS_WEEK, /* in answers only */
};

enum sl_rls_code { SL_RLS_OK = 1, SL_RLS_OVER_LIMIT = 2 };

struct sl_rls_entry {
    struct sl_str key, value;
};

struct sl_rls_descriptor {
    const struct sl_rls_entry *entries;
    unsigned entry_count;
    bool has_limit; /* Envoy sent its own limit */
    uint32_t requests_per_unit;
    uint32_t unit; /* enum sl_rls_unit, or an unknown number */
    bool has_hits; /* 0 hits: peek */
    uint64_t hits;
    bool negative; /* refund the hits */
};

struct sl_rls_request {
    struct sl_str domain;
    struct sl_rls_descriptor descriptors[SL_RLS_DESCRIPTORS];
    unsigned count;
    uint32_t hits; /* 0: not given */
    struct sl_rls_entry entries[SL_RLS_ALL];
    unsigned entry_count;
};

struct sl_rls_status {
    enum sl_rls_code code;
    bool has_limit;
    uint32_t requests_per_unit;
    enum sl_rls_unit unit;
    struct sl_str name;
    uint32_t remaining;
    sl_ns reset_in; /* SL_NS_NONE: left out */
};

struct sl_rls_header {
    struct sl_str key, value; /* the key is written in lower case */
};

struct sl_rls_response {
    enum sl_rls_code code;
    struct sl_rls_status statuses[SL_RLS_DESCRIPTORS];
    unsigned count;
    struct sl_rls_header headers[SL_RLS_HEADERS];
    unsigned header_count;
    struct sl_str body;
};

/* Read a request. SLUICE_EINVAL with a message if it is invalid or has no
 * domain, descriptor or key; SLUICE_EFULL if it has too many of them. */
SL_MUST_USE int sl_rls_request_read(struct sl_str bytes,
                                    struct sl_rls_request *ret,
                                    struct sl_diag *diag);

void sl_rls_request_write(const struct sl_rls_request *request,
                          struct sl_pb_out *out);

/* The maximum size of an answer. */
size_t sl_rls_response_size(const struct sl_rls_response *response);

void sl_rls_response_write(const struct sl_rls_response *response,
                           struct sl_pb_out *out);

/* Read an answer. SLUICE_EINVAL, SLUICE_EFULL. */
SL_MUST_USE int sl_rls_response_read(struct sl_str bytes,
                                     struct sl_rls_response *ret);

/* The length of a unit: a month has 30 days, a year 365; 0 for an unknown unit.
 * And the unit of a length, or SL_RLS_UNKNOWN. */
sl_ns sl_rls_unit_length(uint32_t unit);
enum sl_rls_unit sl_rls_unit_of(sl_ns length);

#endif
