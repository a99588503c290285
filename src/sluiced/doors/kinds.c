/* kinds.c -- which doors there are. */
#include "sluiced/door.h"

const struct sl_protocol *const sl_protocols[SL_PROTOCOLS] = {
    [SL_PROTOCOL_HTTP] = &sl_protocol_http,
    [SL_PROTOCOL_GRPC] = &sl_protocol_grpc,
    [SL_PROTOCOL_RESP] = &sl_protocol_resp,
    [SL_PROTOCOL_ADMIN] = &sl_protocol_admin,
};
