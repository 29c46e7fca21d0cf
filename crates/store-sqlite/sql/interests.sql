SELECT id, pattern,
       (SELECT json_group_array(stream_id) FROM main.tidewire_subscription_links AS link
        WHERE link.subscription_id = subscription.id AND link.explicit)
FROM main.tidewire_subscriptions AS subscription
