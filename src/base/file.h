/* file.h -- a whole file, bounded.
 */
#ifndef SL_FILE_H
#define SL_FILE_H

#include "base/buf.h"
#include "base/diag.h"

/* Append the whole of the file at `path` to `out`. SLUICE_EFULL beyond `most`
 * bytes (what was read so far is there), SLUICE_ENOMEM, or SLUICE_ESYS, and
 * then errno says why. `diag` gets a sentence that names the file. */
SL_MUST_USE int sl_file_read(const char *path, size_t most, struct sl_buf *out,
                             struct sl_diag *diag);

#endif
