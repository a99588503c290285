/* tls.c -- to be written. */
#include "net/tls.h"
