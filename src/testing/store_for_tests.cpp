// A store whose environment belongs to a test.
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>
#include <posthorn/testing/seeded_random.hpp>
#include <posthorn/testing/store_for_tests.hpp>

#include <mutex>
#include <utility>

namespace posthorn::testing {

struct store_for_tests::log_lines {
    std::mutex mutex;
    std::vector<std::string> all;
};

struct store_for_tests::parts {
    std::shared_ptr<manual_clock> clock = std::make_shared<manual_clock>();
    std::shared_ptr<log_lines> lines = std::make_shared<log_lines>();

    [[nodiscard]] store open(const test_store_options& options) const
    {
        if (options.url.empty() != !options.open)
            throw error(error_code::invalid_argument,
                        "a store for tests takes a url and how to open it, or neither");
        const auto note = [to = lines](log_level, std::string_view line) {
            const std::lock_guard lock(to->mutex);
            to->all.emplace_back(line);
        };
        const store_options how{
            .environment = {.clock = clock,
                            .random = std::make_shared<seeded_random>(options.seed),
                            .log = log_sink(note, log_level::warning)},
            .limits = options.limits};
        return options.open ? options.open(options.url, how) : sqlite::open("sqlite::memory:", how);
    }
};

store_for_tests::store_for_tests(const test_store_options& options)
    : store_for_tests(parts{}, options)
{}

store_for_tests::store_for_tests(parts with, const test_store_options& options)
    : store(with.open(options)), clock_(std::move(with.clock)), lines_(std::move(with.lines))
{}

std::vector<std::string> store_for_tests::log() const
{
    const std::lock_guard lock(lines_->mutex);
    return lines_->all;
}

} // namespace posthorn::testing
