/* listener.c -- to be written. */
#include "net/listener.h"
