/* conn.c -- to be written. */
#include "net/conn.h"
