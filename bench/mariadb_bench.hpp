// Posthorn on MariaDB next to a plain table and a queue written by hand.
#pragma once

#include "bench/server_bench.hpp"

#include <string>

namespace bench {

/// `url` is mariadb://USER@HOST:PORT/, where databases named bench and by_hand may be made.
void run_mariadb(const std::string& url, const server_plan& plan, figures& into);

} // namespace bench
