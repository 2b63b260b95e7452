// Each event is handled in the transaction that acknowledges it: the row that says "done" and the
// acknowledgement are one fact. What leaves for another system leaves before the commit, under a
// name that stays the same: after a crash it is sent again, and replaces itself.
#include "event_handlers.hpp"

#include "drop_folder.hpp"
#include "one_time_password.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace users {
namespace {

namespace ph = posthorn;

std::string letter(const user& who, const std::string& code, seconds ttl)
{
    return "To: " + who.email + "\r\nSubject: Your one-time password\r\n\r\nHello " + who.name +
           ",\r\n\r\nyour one-time password is " + code + ". It is valid for " +
           std::to_string(ttl.count()) + " seconds.\r\n";
}

ph::worker_options options_of(const settings::outbox_processor_settings& how)
{
    return {.name = "users",
            .concurrency = how.batch_size,
            .lease = how.lease,
            .look_at_least_every = how.polling_interval,
            .outbox = {.retries = {.fallback = ph::persistent_retry{}}}}; // users wait for these
}

} // namespace

ph::worker make_worker(const ph::store& store, const user_table& table, const settings& how)
{
    ph::worker worker(store, options_of(how.outbox_processor));
    const auto world = store.environment();

    // The password is drawn here: only its hash is ever stored, and its time begins when it leaves.
    worker.handle<user_registration_requested>(
        [&table, world, ttl = how.otp.ttl, mail = drop_folder(how.service.mail_folder)](
            ph::transactional_delivery<user_registration_requested>& which) {
            auto who = table.find(which.tx(), which.value().user_id);
            if (!who || who->state != user_state::registered)
                return;
            const auto code = draw_code(*world.random);
            who->invite(hash_of_code(who->id, code), world.clock->now() + ttl);

            ph::store_unit_of_work work(which.tx());
            table.update(work, *who);
            work.save_changes();
            mail.put(to_string(which.id()) + ".eml", letter(*who, code, ttl));
        });

    worker.handle<user_verified>([&table, directory = drop_folder(how.service.directory_folder)](
                                     ph::transactional_delivery<user_verified>& which) {
        auto who = table.find(which.tx(), which.value().user_id);
        if (!who || who->state != user_state::verified)
            return;
        who->mark_synced();

        ph::store_unit_of_work work(which.tx());
        table.update(work, *who);
        work.save_changes();
        const nlohmann::json entry{{"id", who->id}, {"email", who->email}, {"name", who->name}};
        directory.put(who->id + ".json", entry.dump() + "\n");
    });
    return worker;
}

} // namespace users
