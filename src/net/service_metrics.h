// SPDX-License-Identifier: Apache-2.0
/* service_metrics.h - the part of GET /metrics about the process as a service: its connections, certificates and log. */
#ifndef WEIR_NET_SERVICE_METRICS_H
#define WEIR_NET_SERVICE_METRICS_H

struct server;
struct text;

void service_metrics(struct text *out, struct server *server);

#endif
