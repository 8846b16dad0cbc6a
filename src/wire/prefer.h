// SPDX-License-Identifier: Apache-2.0
/*
 * prefer.h - how long a proxy's client would wait: `Prefer: wait=SECONDS` (RFC 7240).
 *
 * Idea: a preference is a wish, so what we do not understand is no error: a field line that breaks the grammar is
 * as good as absent, and so is a wait that is no number of whole seconds. Of several waits the first counts
 * (RFC 7240 2), in the order of the lines.
 *
 *     Prefer    = #( NAME [ BWS "=" BWS WORD ] *( OWS ";" [ OWS NAME [ BWS "=" BWS WORD ] ] ) )
 *     WORD      = token / quoted-string
 */
#ifndef WEIR_WIRE_PREFER_H
#define WEIR_WIRE_PREFER_H

#include "base/bytes.h"
#include "weir_contract.h"

/* Longest wait that is told apart: a year. More seconds than that are as many. */
#define PREFER_SECONDS_MAX UINT64_C(31536000)

/* The seconds that the fields of a head wish to wait; 0: they do not. */
uint64_t prefer_wait(const struct weir_field *fields, size_t count);

#endif
