/* loop.c -- to be written. */
#include "net/loop.h"
