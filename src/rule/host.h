// SPDX-License-Identifier: Apache-2.0
/*
 * host.h - one spelling for a host: lower case, without port and final dot.
 *
 * `Example.COM.:8080` is `example.com`, `[2001:DB8::1]:80` is `[2001:db8::1]`. An address without brackets has
 * several colons and keeps them all.
 */
#ifndef WEIR_RULE_HOST_H
#define WEIR_RULE_HOST_H

#include "base/bytes.h"

/*
 * `storage` has WEIR_ATTRIBUTE_MAX bytes and is written only when letters change. False when the text cannot be
 * one host: it is longer than that, or has a blank, a control byte, or one of `,/\@?#` (a list, or more than a host),
 * or is a port or a dot alone. What it makes is its own spelling: doors and body calls may both bring it into it.
 */
bool host_normalise(struct slice text, char *storage, struct slice *out);

#endif
