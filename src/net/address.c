/* address.c -- to be written. */
#include "net/address.h"
