/* gate.h -- the message of sluice_why(), shared by the files of libsluice and,
 * as its only user outside, libsluice-policy. */
#ifndef SL_LIB_GATE_H
#define SL_LIB_GATE_H

#include "base/diag.h"

struct sl_diag *sluice_private_diag(void);

#endif
