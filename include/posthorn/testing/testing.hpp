// The testing kit, all of it. Link posthorn::testing.
#pragma once

#include <posthorn/testing/drain.hpp>
#include <posthorn/testing/expectations.hpp>
#include <posthorn/testing/fake_unit_of_work.hpp>
#include <posthorn/testing/leases.hpp>
#include <posthorn/testing/manual_clock.hpp>
#include <posthorn/testing/recorder.hpp>
#include <posthorn/testing/sample_delivery.hpp>
#include <posthorn/testing/seeded_random.hpp>
#include <posthorn/testing/store_for_tests.hpp>
#include <posthorn/testing/verdict.hpp>
