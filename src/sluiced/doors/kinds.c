/* kinds.c -- which doors there are. */
#include "sluiced/door.h"

const struct sl_door_kind *const sl_door_kinds[SL_DOORS] = {
    [SL_DOOR_HTTP] = &sl_door_http,
    [SL_DOOR_GRPC] = &sl_door_grpc,
    [SL_DOOR_RESP] = &sl_door_resp,
    [SL_DOOR_ADMIN] = &sl_door_admin,
};
