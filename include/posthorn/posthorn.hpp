// The way in: everything but the stores' own headers, and the workers of <posthorn/worker.hpp>.
#pragma once

#include <posthorn/correlation.hpp>
#include <posthorn/dead_letters.hpp>
#include <posthorn/delivery.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/id.hpp>
#include <posthorn/in_process.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_state.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/publisher.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/retry.hpp>
#include <posthorn/selection.hpp>
#include <posthorn/serving.hpp>
#include <posthorn/store.hpp>
#include <posthorn/stores.hpp>
#include <posthorn/time.hpp>
#include <posthorn/trace.hpp>
#include <posthorn/transaction.hpp>
#include <posthorn/transport.hpp>
