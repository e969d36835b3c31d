#ifndef SLUICE_BENCH_EXCHANGE_SLUICE_H_
#define SLUICE_BENCH_EXCHANGE_SLUICE_H_

#include <string>

#include "bench/exchange_team.h"
#include "common/tls/transport_security.h"

namespace sluice::bench {

// Sluice's own shard and worker ends: ExchangeService and GrpcExchange. With
// the certificates in the folder `certificates`, as `sluice certs` makes them;
// empty: in plain text.
Bodies SluiceSide(const std::string& certificates = "");

// How a process of `role` talks with those certificates. Ends the process if
// they are no good.
TransportSecurity SecurityOf(const std::string& certificates, TlsRole role);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_SLUICE_H_
