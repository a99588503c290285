#!/bin/sh
# embed.sh FILE.lua... -- the script as a C source, without its comments, and
# the name by which Redis knows it.
set -eu

text=$(sed -e '/^ *--/d' -e 's/ -- .*//' -e 's/^ *//' -e '/^$/d' "$@")
sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
cat <<END
/* Made from the .lua files by embed.sh. */
#include "store/redis/redis_int.h"

const char sl_script_text[] =
$(printf '%s\n' "$text" | sed -e 's/[\\"]/\\&/g' -e 's/.*/    "&\\n"/');
const size_t sl_script_len = sizeof(sl_script_text) - 1;
const char sl_script_sha[41] = "$sha";
END
