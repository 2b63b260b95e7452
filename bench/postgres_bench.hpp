// PostgreSQL's other side: libpq, prepared statements, and SQL as people write it.
#pragma once

#include "bench/figures.hpp"
#include "bench/server_bench.hpp"

#include <string>

namespace bench {

void run_postgres(const std::string& url, const server_plan& plan, figures& into);

/// Only how workers are woken, which is part of `run_postgres`.
void run_bell(const std::string& url, const server_plan& plan, figures& into);

} // namespace bench
