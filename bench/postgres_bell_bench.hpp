// What PostgreSQL's bell costs those who enqueue, and what it gives to those who sleep.
#pragma once

#include "bench/figures.hpp"
#include "bench/server_bench.hpp"

#include <functional>
#include <string>

namespace bench {

/// `fresh_url` names a new empty place for Posthorn's tables each time.
void run_postgres_bell(const std::string& url, const std::function<std::string()>& fresh_url,
                       const server_plan& plan, figures& into);

} // namespace bench
