/* http1.c -- to be written. */
#include "wire/http1.h"
