<?php
// An order and its job in one transaction, with PHP's PDO.
$db = new PDO(getenv('PDO_DSN'), getenv('PDO_USER'), getenv('PDO_PASS'), [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

// Adds an order, and the job that confirms it.
function order(PDO $db, string $item): void
{
    $insert = $db->prepare('insert into orders (item) values (?) returning id');
    $insert->execute([$item]);
    $enqueue = $db->prepare("select dibs.enqueue('mail', ?, kind => 'confirm')");
    $enqueue->execute([json_encode(['order' => $insert->fetchColumn(), 'item' => $item])]);
}

$db->beginTransaction();
order($db, 'a lamp');
$db->commit();

$db->beginTransaction();
order($db, 'a chair');
$db->rollBack(); // neither the order nor the job exists

try {
    $db->query("select dibs.enqueue('mail', priority => -1)");
    exit("a wrong priority was taken\n");
} catch (PDOException $e) {
    [$state, , $message] = $e->errorInfo;
    echo $state, ' | ', strtok($message, "\n"), "\n";
}
