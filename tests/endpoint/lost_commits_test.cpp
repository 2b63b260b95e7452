// Connections to the store that break in the middle of a commit: the sender is asked to come again,
// and what it sends again is the same message.
#include "conformance/conformance_test.hpp"
#include "endpoint/http_client.hpp"
#include "gate/tcp_gate.hpp"
#include <posthorn/inbox.hpp>
#include <posthorn/inbox_endpoint.hpp>

#include <optional>

namespace posthorn::conformance {
namespace {

using ::testing::SizeIs;

class endpoint_commits : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        auto url = under_test().url();
        const auto from = url.rfind(':') + 1;
        const auto port = url.substr(from, url.find('/', from) - from);
        gate_.emplace("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)));
        url.replace(from, port.size(), std::to_string(gate_->port()));
        url += url.find('?') == url.npos ? "?pool=1" : "&pool=1";
        endpoint_ = std::make_unique<inbox_endpoint>(
            posthorn::open(url, {.environment = world()}),
            inbox_endpoint_options{.paths = {{.path = "/in",
                                              .source = "shop",
                                              .unsigned_allowed = true,
                                              .topic = "orders"}}});
        port_ = endpoint_->start();
    }

    void TearDown() override
    {
        endpoint_.reset();
        gate_.reset();
        conformance_test::TearDown();
    }

    int post(const std::string& id)
    {
        return test::ask(port_, test::request("POST", "/in", {{"webhook-id", id}}, "{}")).status;
    }

    test::tcp_gate& wire() { return *gate_; }
    static std::string commit()
    {
        return GetParam().name == "postgres" ? "posthorn_commit" : "COMMIT";
    }

private:
    std::optional<test::tcp_gate> gate_;
    std::unique_ptr<inbox_endpoint> endpoint_;
    std::uint16_t port_ = 0;
};

// Proves: INB-05, F4
TEST_P(endpoint_commits, what_comes_again_because_of_doubt_is_stored_once)
{
    EXPECT_EQ(post("warm-up"), 202); // from now on a request for a commit is one to run it
    wire().lose_reply(commit());
    EXPECT_EQ(post("1"), 503);
    EXPECT_EQ(post("1"), 200) << "it had been stored";
    wire().lose_request(commit());
    EXPECT_EQ(post("2"), 503);
    EXPECT_EQ(post("2"), 202) << "it had not";
    EXPECT_THAT(list_messages(db(), {.topic = "inbox:*"}), SizeIs(3));
}

// Proves: INB-05
TEST_P(endpoint_commits, a_server_that_is_away_is_said_to_be)
{
    EXPECT_EQ(post("1"), 202);
    wire().refuse(true);
    wire().cut();
    EXPECT_EQ(post("2"), 503);
    wire().refuse(false);
    EXPECT_EQ(post("2"), 202);
    EXPECT_THAT(list_messages(db(), {.topic = "inbox:*"}), SizeIs(2));
}

std::vector<store_kind> servers_behind_endpoints()
{
    std::vector<store_kind> result;
    for (const auto& each : store_kinds())
        if (each.name == "postgres" || each.name == "mariadb")
            result.push_back(each);
    return result;
}

INSTANTIATE_TEST_SUITE_P(stores, endpoint_commits, ::testing::ValuesIn(servers_behind_endpoints()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace posthorn::conformance
