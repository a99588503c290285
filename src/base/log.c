/* log.c -- to be written. */
#include "base/log.h"
