/* rls_fields.h -- the numbers of the fields; for rls.c and rls_answer.c only.
 */
#ifndef SL_RLS_FIELDS_H
#define SL_RLS_FIELDS_H

enum {
    REQUEST_DOMAIN = 1,
    REQUEST_DESCRIPTORS = 2,
    REQUEST_HITS = 3,

    DESCRIPTOR_ENTRIES = 1,
    DESCRIPTOR_LIMIT = 2,
    DESCRIPTOR_HITS = 3, /* google.protobuf.UInt64Value */
    DESCRIPTOR_NEGATIVE = 4,

    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,

    OVERRIDE_REQUESTS = 1,
    OVERRIDE_UNIT = 2,

    WRAPPED_VALUE = 1,

    RESPONSE_CODE = 1,
    RESPONSE_STATUSES = 2,
    RESPONSE_HEADERS = 3,
    RESPONSE_BODY = 5,

    STATUS_CODE = 1,
    STATUS_LIMIT = 2,
    STATUS_REMAINING = 3,
    STATUS_RESET = 4, /* google.protobuf.Duration */

    LIMIT_REQUESTS = 1,
    LIMIT_UNIT = 2,
    LIMIT_NAME = 3,

    DURATION_SECONDS = 1,
    DURATION_NANOS = 2,

    HEADER_KEY = 1,
    HEADER_VALUE = 2,
};

#endif
