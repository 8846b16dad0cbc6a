// SPDX-License-Identifier: Apache-2.0
/* unit.h - cmocka with the headers it wants before it, and a length for tables. */
#ifndef WEIR_TEST_UNIT_H
#define WEIR_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Fails with the row's reason, so that a table tells which of its rows broke. */
#define expect_row(condition, why) \
    do { \
        if (!(condition)) \
            fail_msg("%s: %s", (why), #condition); \
    } while (0)

#endif
